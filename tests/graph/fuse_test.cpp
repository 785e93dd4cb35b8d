#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

TEST(Fuse, JoinsAChainIntoOneNode) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[3, 4]}
    %b = input {index=1, shape=[4]}
    %two = full {value=2}
    %s = add(%x, %b)
    %t = tanh(%s)
    %y = mul(%t, %two)
    return %y)"),
            R"(
%0 = input 0
%1 = input 1
%2 = full {value=2}
%3 = fused(%0, %1, %2) {program="t0=add(a0,a1); t1=tanh(t0); t2=mul(t1,a2); o0=t2"}
return %3
)");
}

TEST(Fuse, LeavesASingleOpAlone) {
  expect_unchanged_by("fuse", "%x = input {shape=[3]}\n%y = tanh(%x)\n%z = softmax(%y)\nreturn %z");
}

TEST(Fuse, GivesEveryValueThatIsReadOutsideAsAnOutput) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[3, 4]}
    %e = exp(%x)
    %total = softmax(%e)
    %y = mul(%e, %e)
    %z = neg(%y)
    return %y, %z, %total)"),
            R"(
%0 = input 0
%1, %2, %3 = fused(%0) {program="t0=exp(a0); t1=mul(t0,t0); t2=neg(t1); o0=t0; o1=t1; o2=t2"}
%4 = softmax(%1)
return %2, %3, %4
)");
}

TEST(Fuse, MovesReadersBehindTheGroupAndOperandsBeforeIt) {
  EXPECT_EQ(shown_after("fuse", R"(
    %p = input {shape=[3]}
    %t = input {index=1, shape=[3]}
    %d = sub(%p, %t)
    %sum = softmax(%d)
    %g = full {value=0.5}
    %dp = mul(%d, %g)
    return %sum, %dp)"),
            R"(
%0 = input 0
%1 = input 1
%2 = full {value=0.5}
%3, %4 = fused(%0, %1, %2) {program="t0=sub(a0,a1); t1=mul(t0,a2); o0=t0; o1=t1"}
%5 = softmax(%3)
return %5, %4
)");
}

TEST(Fuse, MakesNoCycleThroughNodesThatCannotJoin) {
  expect_unchanged_by("fuse", R"(
    %x = input {shape=[3, 4]}
    %y = tanh(%x)
    %m = softmax(%y)
    %z = mul(%y, %m)
    return %z)");
}

TEST(Fuse, MakesNoCycleThroughAnotherGroup) {
  // exp and the last add may not join: the norm between them depends on the one and feeds the other.
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[3]}
    %a = exp(%x)
    %s = norm(%a) {axes=[0], keepdim=true}
    %t = tanh(%s)
    %u = neg(%t)
    %b = add(%a, %u)
    %c = neg(%b)
    return %c)"),
            R"(
%0 = input 0
%1 = exp(%0)
%2 = norm(%1) {axes=[0], keepdim=true}
%3 = fused(%2) {program="t0=tanh(a0); t1=neg(t0); o0=t1"}
%4 = fused(%1, %3) {program="t0=add(a0,a1); t1=neg(t0); o0=t1"}
return %4
)");
}

TEST(Fuse, KeepsShapesDtypesDevicesAndLanesApart) {
  expect_unchanged_by(
      "fuse", "%x = input {shape=[4]}\n%m = input {index=1, shape=[3, 4]}\n%y = tanh(%x)\n%z = add(%m, %y)\nreturn %z");
  expect_unchanged_by("fuse", "%x = input {shape=[4], dtype=i64}\n%y = add(%x, %x)\n%z = mul(%y, %y)\nreturn %z");
  expect_unchanged_by("fuse", "%x = input {shape=[4], dtype=f16}\n%y = add(%x, %x)\n%z = mul(%y, %y)\nreturn %z");
  expect_unchanged_by("fuse", "%x = input {shape=[4]}\n%y = tanh(%x)\n%z = neg(%y) device=cpu:1\nreturn %z");
  expect_unchanged_by("fuse", "%x = input {shape=[4]}\n%y = tanh(%x)\n%z = neg(%y) lane=comm\nreturn %z");
  expect_unchanged_by("fuse", "%x = input {shape=[4]}\n%y = tanh(%x)\n%z = neg(%y) after=(%x)\nreturn %z");
}

TEST(Fuse, FusesDoublesToo) {
  EXPECT_EQ(shown_after("fuse", "%x = input {shape=[4], dtype=f64}\n%y = tanh(%x)\n%z = neg(%y)\nreturn %z"), R"(
%0 = input 0
%1 = fused(%0) {program="t0=tanh(a0); t1=neg(t0); o0=t1"}
return %1
)");
}

TEST(Fuse, KeepsBoolsInside) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[4]}
    %zero = full
    %c = greater(%x, %zero)
    %y = where(%c, %x, %zero)
    return %y)"),
            R"(
%0 = input 0
%1 = full
%2 = fused(%0, %1) {program="t0=greater(a0,a1); t1=where(t0,a0,a1); o0=t1"}
return %2
)");
}

TEST(Fuse, LeavesBoolsThatComeFromOutsideOrAreWanted) {
  const std::string head = "%x = input {shape=[4]}\n%zero = full\n";
  expect_unchanged_by("fuse", head + "%c = greater(%x, %zero)\n%y = where(%c, %x, %zero)\nreturn %y, %c");
  expect_unchanged_by(
      "fuse", head + "%m = input {index=1, shape=[4], dtype=bool}\n%y = where(%m, %x, %zero)\n%z = neg(%y)\nreturn %z");
  expect_unchanged_by("fuse", head + "%c = greater(%zero, %zero)\n%y = where(%c, %x, %zero)\nreturn %y");
}

TEST(Fuse, ReadsStretchedOperandsAsTheyWere) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[3, 4]}
    %r = input {index=1, shape=[4]}
    %w = broadcast_to(%r) {shape=[3, 4]}
    %a = mul(%x, %w)
    %y = neg(%a)
    %b = exp(%w)
    %z = neg(%b)
    return %y, %z)"),
            R"(
%0 = input 0
%1 = input 1
%2 = broadcast_to(%1) {shape=[3, 4]}
%3 = fused(%0, %1) {program="t0=mul(a0,a1); t1=neg(t0); o0=t1"}
%4 = fused(%2) {program="t0=exp(a0); t1=neg(t0); o0=t1"}
return %3, %4
)");
}

TEST(Fuse, DoesNotCarryAReadOfAVariableBehindItsAssign) {
  expect_unchanged_by("fuse", R"(
    variable 0 "w" f32[3]
    %x = input {shape=[3]}
    %w = variable {shape=[3]}
    %d = sub(%w, %x)
    assign(%x)
    %new = variable {shape=[3]}
    %z = mul(%d, %new)
    return %z)");
}

TEST(Fuse, CutsChainsThatNeedTooManyValues) {
  std::string body = "%0 = input {shape=[3]}\n";
  for (int i = 1; i <= 70; ++i) body += fmt::format("%{} = tanh(%{})\n", i, i - 1);
  const Graph graph = after("fuse", graph_of(body + "return %70"));
  EXPECT_EQ(graph.size(), 3);  // the input and ⌈70 / 47⌉ chains
}

TEST(Fuse, DoesNotJoinNodesFarApart) {
  std::string body = "%0 = input {shape=[3]}\n%a = exp(%0)\n";
  for (int i = 1; i <= 70; ++i) body += fmt::format("%{} = softmax(%{})\n", i, i - 1);
  expect_unchanged_by("fuse", body + "%z = add(%a, %70)\nreturn %z");
}

TEST(Fuse, KeepsGraphsOfAnyFormInOrder) {
  // Random graphs of ops that can and cannot join: the result must verify and keep every output's type.
  std::uint32_t state = 1;
  const auto below = [&](std::size_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
  };
  const char* const unary[] = {"tanh", "exp", "softmax", "relu", "neg"};
  const char* const binary[] = {"add", "mul", "sub"};
  for (int round = 0; round < 200; ++round) {
    std::string body = "%0 = input {shape=[3, 4]}\n";
    for (std::size_t i = 1; i <= 40; ++i) {
      const auto a = below(i), b = below(i);
      body += below(2) ? fmt::format("%{} = {}(%{})\n", i, unary[below(5)], a)
                       : fmt::format("%{} = {}(%{}, %{})\n", i, binary[below(3)], a, b);
    }
    body += fmt::format("return %40, %{}", below(40));
    const Graph before = graph_of(body);
    const Graph made = after("fuse", before);
    EXPECT_LT(made.size(), before.size());
  }
}

}  // namespace
}  // namespace starling::graph
