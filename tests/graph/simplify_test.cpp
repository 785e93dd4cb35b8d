#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

// Bodies begin with x [2, 3], row [3], i (i64 [2, 3]) and m (bool [2, 3]), which are %0 to %3.
const std::string kHead = R"(
    %x = input {shape=[2, 3]}
    %row = input {index=1, shape=[3]}
    %i = input {index=2, shape=[2, 3], dtype=i64}
    %m = input {index=3, shape=[2, 3], dtype=bool}
)";
constexpr std::string_view kInputs = "%0 = input 0\n%1 = input 1\n%2 = input 2\n%3 = input 3\n";

std::string simplified(const std::string& body) {
  const std::string text = print_short(after("simplify", graph_of(kHead + body)));
  EXPECT_TRUE(text.starts_with(kInputs)) << text;
  return "\n" + text.substr(kInputs.size());
}
void expect_kept(const std::string& body) { expect_unchanged_by("simplify", kHead + body); }

TEST(Simplify, DropsZerosThatAreAdded) {
  EXPECT_EQ(simplified(R"(
    %z = full
    %y = add(%x, %z)
    return %y)"),
            R"(
return %0
)");
  EXPECT_EQ(simplified(R"(
    %z = full {shape=[2, 3]}
    %y = add(%z, %row)
    return %y)"),
            R"(
%4 = broadcast_to(%1) {shape=[2, 3]}
return %4
)");
  EXPECT_EQ(simplified(R"(
    %z = full {dtype=i64}
    %y = sub(%i, %z)
    return %y)"),
            R"(
return %2
)");
  EXPECT_EQ(simplified(R"(
    %z = full
    %y = sub(%z, %x)
    return %y)"),
            R"(
%4 = neg(%0)
return %4
)");
}

TEST(Simplify, DropsOnesThatMultiply) {
  EXPECT_EQ(simplified(R"(
    %o = full {value=1}
    %y = mul(%o, %x)
    %w = div(%y, %o)
    return %w)"),
            R"(
return %0
)");
  EXPECT_EQ(simplified(R"(
    %o = full {value=-1}
    %y = mul(%x, %o)
    return %y)"),
            R"(
%4 = neg(%0)
return %4
)");
}

TEST(Simplify, DividesByPowersOfTwoByMultiplying) {
  EXPECT_EQ(simplified(R"(
    %o = full {value=8}
    %y = div(%x, %o)
    return %y)"),
            R"(
%4 = full {value=0.125}
%5 = mul(%0, %4)
return %5
)");
}

TEST(Simplify, JoinsScalesAndSigns) {
  EXPECT_EQ(simplified(R"(
    %a = full {value=0.5}
    %b = full {value=3}
    %y = mul(%x, %a)
    %z = mul(%b, %y)
    return %z)"),
            R"(
%4 = full {value=1.5}
%5 = mul(%0, %4)
return %5
)");
  EXPECT_EQ(simplified(R"(
    %a = full {value=0.5}
    %b = full {value=2}
    %y = mul(%x, %a)
    %z = mul(%b, %y)
    return %z)"),
            R"(
return %0
)");
  EXPECT_EQ(simplified(R"(
    %a = full {value=3}
    %y = mul(%x, %a)
    %n = neg(%y)
    %p = neg(%x)
    %q = mul(%p, %a)
    return %n, %q)"),
            R"(
%4 = full {value=-3}
%5 = mul(%0, %4)
%6 = full {value=-3}
%7 = mul(%0, %6)
return %5, %7
)");
}

TEST(Simplify, CancelsSigns) {
  EXPECT_EQ(simplified(R"(
    %n = neg(%x)
    %y = neg(%n)
    return %y)"),
            R"(
return %0
)");
  EXPECT_EQ(simplified(R"(
    %n = neg(%row)
    %a = add(%x, %n)
    %b = add(%n, %x)
    %c = sub(%x, %n)
    return %a, %b, %c)"),
            R"(
%4 = sub(%0, %1)
%5 = sub(%0, %1)
%6 = add(%0, %1)
return %4, %5, %6
)");
  EXPECT_EQ(simplified(R"(
    %s = sub(%x, %row)
    %n = neg(%s)
    return %n)"),
            R"(
%4 = sub(%1, %0)
return %4
)");
}

TEST(Simplify, WritesSmallPowersAsProducts) {
  EXPECT_EQ(simplified(R"(
    %p = full {value=2}
    %y = pow(%x, %p)
    %q = full {value=3}
    %z = pow(%x, %q)
    %r = full {value=-1}
    %w = pow(%x, %r)
    %o = full {value=1}
    %v = pow(%x, %o)
    return %y, %z, %w, %v)"),
            R"(
%4 = mul(%0, %0)
%5 = mul(%0, %0)
%6 = mul(%5, %0)
%7 = reciprocal(%0)
return %4, %6, %7, %0
)");
}

TEST(Simplify, DropsWhatRepeatsItself) {
  EXPECT_EQ(simplified(R"(
    %y = relu(%x)
    %z = relu(%y)
    %a = abs(%z)
    %b = abs(%a)
    return %b)"),
            R"(
%4 = relu(%0)
return %4
)");
  EXPECT_EQ(simplified(R"(
    %n = neg(%x)
    %a = abs(%n)
    %s = square(%n)
    return %a, %s)"),
            R"(
%4 = abs(%0)
%5 = square(%0)
return %4, %5
)");
  EXPECT_EQ(simplified(R"(
    %a = maximum(%x, %x)
    %b = minimum(%a, %a)
    return %b)"),
            R"(
return %0
)");
}

TEST(Simplify, ChoosesWhereTheConditionIsKnown) {
  EXPECT_EQ(simplified(R"(
    %t = full {value=1, dtype=bool}
    %y = where(%t, %x, %row)
    %f = full {dtype=bool}
    %z = where(%f, %x, %row)
    %w = where(%m, %x, %x)
    return %y, %z, %w)"),
            R"(
%4 = broadcast_to(%1) {shape=[2, 3]}
return %0, %4, %0
)");
  EXPECT_EQ(simplified(R"(
    %t = full {value=1, dtype=bool}
    %y = masked_fill(%t, %x) {value=7}
    %f = full {dtype=bool}
    %z = masked_fill(%f, %x) {value=7}
    return %y, %z)"),
            R"(
%4 = full {shape=[2, 3], value=7}
return %4, %0
)");
}

TEST(Simplify, ReadsStretchedOperandsAsTheyWere) {
  EXPECT_EQ(simplified(R"(
    %b = broadcast_to(%row) {shape=[2, 3]}
    %f = full {shape=[2, 3], value=3}
    %y = mul(%x, %b)
    %z = mul(%x, %f)
    %w = mul(%b, %f)
    return %y, %z, %w)"),
            R"(
%4 = full {shape=[2, 3], value=3}
%5 = mul(%0, %1)
%6 = full {value=3}
%7 = mul(%0, %6)
%8 = mul(%1, %4)
return %5, %7, %8
)");
}

TEST(Simplify, DropsViewsAndCastsThatChangeNothing) {
  EXPECT_EQ(simplified(R"(
    %a = identity(%x)
    %b = cast(%a) {dtype=f32}
    %c = reshape(%b) {shape=[2, 3]}
    %d = broadcast_to(%c) {shape=[2, 3]}
    %e = transpose(%d) {order=[0, 1]}
    return %e)"),
            R"(
return %0
)");
}

TEST(Simplify, JoinsCastsThatLoseNothing) {
  EXPECT_EQ(simplified(R"(
    %a = cast(%x) {dtype=f64}
    %b = cast(%a) {dtype=f32}
    %c = cast(%x) {dtype=f16}
    %d = cast(%c) {dtype=f32}
    %e = cast(%m) {dtype=f32}
    %f = cast(%e) {dtype=i64}
    return %b, %d, %f)"),
            R"(
%4 = cast(%0) {dtype=f16}
%5 = cast(%4)
%6 = cast(%3) {dtype=i64}
return %0, %5, %6
)");
}

TEST(Simplify, JoinsReshapesUnlessNothingIsCopied) {
  EXPECT_EQ(simplified(R"(
    %a = reshape(%x) {shape=[3, 2]}
    %b = unsqueeze(%a) {axes=[0]}
    %c = reshape(%b) {shape=[6]}
    %d = squeeze(%b) {axes=[0]}
    return %c, %d)"),
            R"(
%4 = reshape(%0) {shape=[6]}
%5 = reshape(%0) {shape=[3, 2]}
return %4, %5
)");
  EXPECT_EQ(simplified(R"(
    %a = unsqueeze(%x) {axes=[0]}
    %b = unsqueeze(%a) {axes=[0]}
    %c = squeeze(%a) {axes=[0]}
    return %b, %c)"),
            R"(
%4 = unsqueeze(%0) {axes=[0]}
%5 = unsqueeze(%4) {axes=[0]}
return %5, %0
)");
}

TEST(Simplify, JoinsTransposes) {
  EXPECT_EQ(simplified(R"(
    %a = transpose(%x)
    %b = permute(%a) {order=[1, 0]}
    %u = reshape(%x) {shape=[2, 1, 3]}
    %c = transpose(%u) {order=[1, 0, 2]}
    return %b, %c)"),
            R"(
%4 = reshape(%0) {shape=[1, 2, 3]}
return %0, %4
)");
}

TEST(Simplify, JoinsBroadcasts) {
  EXPECT_EQ(simplified(R"(
    %a = broadcast_to(%row) {shape=[2, 3]}
    %b = broadcast_to(%a) {shape=[4, 2, 3]}
    return %b)"),
            R"(
%4 = broadcast_to(%1) {shape=[4, 2, 3]}
return %4
)");
}

TEST(Simplify, JoinsSlicesAndFindsThePartTheyLieIn) {
  EXPECT_EQ(simplified(R"(
    %a = slice(%x) {axis=1, end=3}
    %b = slice(%x) {axis=1, begin=1}
    %c = slice(%b) {axis=1, begin=1, end=2}
    return %a, %c)"),
            R"(
%4 = slice(%0) {axis=1, begin=2, end=3}
return %0, %4
)");
  EXPECT_EQ(simplified(R"(
    %c = concat(%x, %x) {axis=0}
    %a = slice(%c) {begin=2, end=3}
    %b = slice(%c) {begin=1, end=3}
    %d = slice(%c) {end=2}
    return %a, %b, %d)"),
            R"(
%4 = concat(%0, %0) {axis=0}
%5 = slice(%0) {end=1}
%6 = slice(%4) {begin=1, end=3}
return %5, %6, %0
)");
}

TEST(Simplify, JoinsPiecesToTheWholeTheyCameFrom) {
  EXPECT_EQ(simplified(R"(
    %c = concat(%x)
    %a = slice(%x) {axis=1, end=1}
    %b = slice(%x) {axis=1, begin=1}
    %d = concat(%a, %b) {axis=1}
    %e = concat(%b, %a) {axis=1}
    return %c, %d, %e)"),
            R"(
%4 = slice(%0) {axis=1, end=1}
%5 = slice(%0) {axis=1, begin=1}
%6 = concat(%5, %4) {axis=1}
return %0, %0, %6
)");
}

TEST(Simplify, DropsPadsTilesRepeatsSplitsAndFlipsOfNothing) {
  EXPECT_EQ(simplified(R"(
    %a = pad(%x)
    %b = tile(%a) {reps=[1, 1]}
    %c = repeat(%b)
    %d = split(%c)
    %e = flip(%d) {axes=[0, 1]}
    %f = flip(%e) {axes=[-1, 0]}
    return %f)"),
            R"(
return %0
)");
}

TEST(Simplify, ReducesNothingOverAxesOfOne) {
  EXPECT_EQ(simplified(R"(
    %u = unsqueeze(%x) {axes=[0]}
    %a = sum(%u) {axes=[0]}
    %b = max(%u) {axes=[0], keepdim=true}
    %c = sum(%i) {axes=[]}
    return %a, %b, %c)"),
            R"(
%4 = unsqueeze(%0) {axes=[0]}
%5 = sum(%2)
return %0, %4, %5
)");
}

TEST(Simplify, JoinsReductions) {
  EXPECT_EQ(simplified(R"(
    %a = sum(%x) {axes=[1]}
    %b = sum(%a)
    %c = max(%x) {axes=[0], keepdim=true}
    %d = max(%c) {axes=[1]}
    return %b, %d)"),
            R"(
%4 = sum(%0) {axes=[0, 1], keepdim=true}
%5 = reshape(%4)
%6 = max(%0) {axes=[0, 1], keepdim=true}
%7 = reshape(%6) {shape=[1]}
return %5, %7
)");
}

TEST(Simplify, CountsWhatABroadcastRepeats) {
  EXPECT_EQ(simplified(R"(
    %w = broadcast_to(%row) {shape=[5, 2, 3]}
    %a = sum(%w) {axes=[0, 2]}
    %b = max(%w) {axes=[0]}
    %c = mean(%w)
    %d = sum(%w) {axes=[2]}
    return %a, %b, %c, %d)"),
            R"(
%4 = broadcast_to(%1) {shape=[5, 2, 3]}
%5 = reshape(%1) {shape=[1, 1, 3]}
%6 = broadcast_to(%5) {shape=[1, 2, 3]}
%7 = sum(%6) {axes=[0, 2]}
%8 = full {value=5}
%9 = mul(%7, %8)
%10 = reshape(%1) {shape=[1, 1, 3]}
%11 = broadcast_to(%10) {shape=[1, 2, 3]}
%12 = reshape(%11) {shape=[2, 3]}
%13 = reshape(%1) {shape=[1, 1, 3]}
%14 = mean(%13)
%15 = sum(%4) {axes=[2]}
return %9, %12, %14, %15
)");
}

TEST(Simplify, DropsDropoutOfNothingAndNoOther) {
  EXPECT_EQ(simplified(R"(
    %key = input {index=4, shape=[2], dtype=i64}
    %a = dropout(%x, %key) {keep=1}
    %b = dropout(%x, %key) {keep=0.5}
    return %a, %b)"),
            R"(
%4 = input 4
%5 = dropout(%0, %4)
return %0, %5
)");
}

TEST(Simplify, KeepsWhatNanAndInfinityWouldShow) {
  expect_kept("%z = full\n%y = mul(%x, %z)\nreturn %y");
  expect_kept("%y = sub(%x, %x)\nreturn %y");
  expect_kept("%y = div(%x, %x)\nreturn %y");
  expect_kept("%e = exp(%x)\n%y = log(%e)\nreturn %y");
  expect_kept("%h = full {value=0.5}\n%y = pow(%x, %h)\nreturn %y");
}

TEST(Simplify, KeepsWhatWouldRoundOtherwise) {
  expect_kept("%three = full {value=3}\n%y = div(%x, %three)\nreturn %y");
  expect_kept("%a = cast(%x) {dtype=i64}\n%y = cast(%a)\nreturn %y");
  expect_kept(
      "%h = cast(%x) {dtype=f16}\n%a = full {value=0.1, dtype=f16}\n%p = mul(%h, %a)\n%y = mul(%p, %a)\nreturn %y");
  expect_kept("%a = full {value=1e-30}\n%p = mul(%x, %a)\n%y = mul(%p, %a)\nreturn %y");
}

TEST(Simplify, KeepsControlEdgesDevicesAndValuesReadElsewhere) {
  expect_kept("%z = full\n%y = add(%x, %z) after=(%row)\nreturn %y");
  expect_kept("%y = identity(%x) device=cuda:0\nreturn %y");
  expect_kept("%s = sum(%x) {axes=[1]}\n%y = sum(%s)\nreturn %y, %s");
}

}  // namespace
}  // namespace starling::graph
