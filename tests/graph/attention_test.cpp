#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kHead = R"(
    constant 0 bool[3, 3] {1, 0, 0, 1, 1, 0, 1, 1, 1}
    %q = input {shape=[2, 3, 4]}
    %k = input {index=1, shape=[2, 3, 4]}
    %v = input {index=2, shape=[2, 3, 5]}
    %m = input {index=3, shape=[3, 3], dtype=bool}
    %b = input {index=4, shape=[2, 1, 3]}
    %dy = input {index=5, shape=[2, 3, 5]}
    %half = full {value=0.5}
    %low = full {value=-inf}
    %none = full
)";

// Graph text after the pass, without the inputs.
std::string attended(const std::string& body) {
  const std::string text = print_short(after("attention", graph_of(kHead + body)));
  return "\n" + text.substr(text.find("%5 = input 5\n") + 13);
}
void expect_kept(const std::string& body) {
  EXPECT_EQ(attended(body).find("scaled_dot_product"), std::string::npos) << attended(body);
}

TEST(Attention, ReplacesTheSoftmaxOfScoresTimesValues) {
  EXPECT_EQ(attended(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %c = mul(%s, %half)
    %p = softmax(%c)
    %y = matmul(%p, %v)
    return %y)"),
            R"(
%6, %7 = scaled_dot_product_attention(%0, %1, %2) {scale=0.5}
return %6
)");
}

TEST(Attention, SeesThroughTransposesAndDivisions) {
  EXPECT_EQ(attended(R"(
    %kt = transpose(%k) {order=[0, 2, 1]}
    %s = matmul(%q, %kt)
    %c = div(%s, %half)
    %p = softmax(%c)
    %y = matmul(%p, %v)
    return %y)"),
            R"(
%6, %7 = scaled_dot_product_attention(%0, %1, %2) {scale=2}
return %6
)");
}

TEST(Attention, TakesMasksOfEveryKind) {
  EXPECT_EQ(attended(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %c = constant {shape=[3, 3], dtype=bool}
    %w = where(%c, %s, %low)
    %p = softmax(%w)
    %y = matmul(%p, %v)
    return %y)"),
            R"(
%6, %7 = scaled_dot_product_attention(%0, %1, %2) {causal=true, scale=1}
return %6
)");
  EXPECT_EQ(attended(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %c = constant {shape=[3, 3], dtype=bool}
    %w = where(%c, %s, %low)
    %a = add(%b, %w)
    %p = softmax(%a)
    %y = matmul(%p, %v)
    return %y)"),
            R"(
%6, %7 = scaled_dot_product_attention(%0, %1, %2, %4) {causal=true, scale=1}
return %6
)");
  EXPECT_EQ(attended(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %w = masked_fill(%m, %s) {value=-inf}
    %p = softmax(%w)
    %y = matmul(%p, %v)
    return %y)"),
            R"(
%6 = logical_not(%3)
%7, %8 = scaled_dot_product_attention(%0, %1, %2, %6) {scale=1}
return %7
)");
}

TEST(Attention, ReplacesTheBackwardPassToo) {
  EXPECT_EQ(attended(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %c = mul(%s, %half)
    %w = where(%m, %c, %low)
    %p = softmax(%w)
    %y = matmul(%p, %v)
    %dp = matmul(%dy, %v) {trans_b=true}
    %dv = matmul(%p, %dy) {trans_a=true}
    %dw = softmax_backward(%dp, %p)
    %dc = where(%m, %dw, %none)
    %ds = mul(%dc, %half)
    %dq = matmul(%ds, %k)
    %dk = matmul(%ds, %q) {trans_a=true}
    return %y, %dq, %dk, %dv)"),
            R"(
%6, %7 = scaled_dot_product_attention(%0, %1, %2, %3) {scale=0.5}
%8 = full {shape=[2, 3]}
%9, %10, %11 = scaled_dot_product_attention_backward(%5, %8, %0, %1, %2, %6, %7, %3) {scale=0.5, dlse_is_zero=true}
return %6, %9, %10, %11
)");
}

TEST(Attention, GivesGradientsThatWereWantedTransposed) {
  EXPECT_EQ(attended(R"(
    %kt = transpose(%k) {order=[0, 2, 1]}
    %s = matmul(%q, %kt)
    %p = softmax(%s)
    %y = matmul(%p, %v)
    %dp = matmul(%dy, %v) {trans_b=true}
    %ds = softmax_backward(%dp, %p)
    %dq = matmul(%ds, %kt) {trans_b=true}
    %dkt = matmul(%q, %ds) {trans_a=true}
    return %y, %dq, %dkt)"),
            R"(
%6, %7 = scaled_dot_product_attention(%0, %1, %2) {scale=1}
%8 = full {shape=[2, 3]}
%9, %10, %11 = scaled_dot_product_attention_backward(%5, %8, %0, %1, %2, %6, %7) {scale=1, dlse_is_zero=true}
%12 = transpose(%10) {order=[0, 2, 1]}
return %6, %9, %12
)");
}

TEST(Attention, KeepsScoresThatAreWanted) {
  const std::string head = "%s = matmul(%q, %k) {trans_b=true}\n%p = softmax(%s)\n%y = matmul(%p, %v)\n";
  expect_kept(head + "return %y, %p");
  expect_kept(head + "return %y, %s");
  expect_kept(head + "%e = sum(%p)\nreturn %y, %e");
  expect_kept(head + "%e = exp(%s)\nreturn %y, %e");
}

TEST(Attention, KeepsWhatIsNotQuiteAttention) {
  // Not attention: scaled after adding the mask; a finite mask value; a mask of one number per row, which need not be
  // causal.
  expect_kept(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %a = add(%s, %b)
    %c = mul(%a, %half)
    %p = softmax(%c)
    %y = matmul(%p, %v)
    return %y)");
  expect_kept(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %w = masked_fill(%m, %s) {value=-5}
    %p = softmax(%w)
    %y = matmul(%p, %v)
    return %y)");
  expect_kept(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %w = masked_fill(%m, %s) {value=-1e9}
    %p = softmax(%w)
    %y = matmul(%p, %v)
    return %y)");
  // A mask's gradient also reads the scores' gradient.
  expect_kept(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %a = add(%s, %b)
    %p = softmax(%a)
    %y = matmul(%p, %v)
    %dp = matmul(%dy, %v) {trans_b=true}
    %da = softmax_backward(%dp, %p)
    %db = sum(%da) {axes=[1], keepdim=true}
    %dq = matmul(%da, %k)
    return %y, %dq, %db)");
  // Another scale in the backward pass.
  expect_kept(R"(
    %s = matmul(%q, %k) {trans_b=true}
    %p = softmax(%s)
    %y = matmul(%p, %v)
    %dp = matmul(%dy, %v) {trans_b=true}
    %da = softmax_backward(%dp, %p)
    %ds = mul(%da, %half)
    %dq = matmul(%ds, %k)
    return %y, %dq)");
}

TEST(Attention, DoesNotCarryAReadOfAVariableBehindItsAssign) {
  const std::string text = R"(
    variable 0 "k" f32[2, 3, 4]
    %q = input {shape=[2, 3, 4]}
    %v = input {index=1, shape=[2, 3, 5]}
    %k = variable {shape=[2, 3, 4]}
    %s = matmul(%q, %k) {trans_b=true}
    %p = softmax(%s)
    assign(%q)
    %y = matmul(%p, %v)
    return %y)";
  expect_unchanged_by("attention", text);
}

}  // namespace
}  // namespace starling::graph
