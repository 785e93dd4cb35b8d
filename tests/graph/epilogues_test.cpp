#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

TEST(Epilogues, FoldActivationsIntoTheirProducers) {
  EXPECT_EQ(shown_after("epilogues", R"(
    %x = input {shape=[3, 4]}
    %w = input {index=1, shape=[5, 4]}
    %b = input {index=2, shape=[5]}
    %image = input {index=3, shape=[1, 1, 4, 4]}
    %k = input {index=4, shape=[1, 1, 3, 3]}
    %u = linear(%x, %w, %b)
    %y = relu(%u)
    %c = conv2d(%image, %k) {padding=[1, 1]}
    %z = sigmoid(%c)
    %d = relu_backward(%y, %y)
    return %y, %z, %d)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4 = input 4
%5 = linear(%0, %1, %2) {activation="relu"}
%6 = conv2d(%3, %4) {padding=[1, 1], activation="sigmoid"}
%7 = relu_backward(%5, %5)
return %5, %6, %7
)");
}

TEST(Epilogues, LeaveActivationsOfValuesThatOthersWant) {
  const std::string head = "%x = input {shape=[3, 4]}\n%w = input {index=1, shape=[5, 4]}\n";
  expect_unchanged_by("epilogues", head + "%u = linear(%x, %w)\n%y = relu(%u)\nreturn %y, %u");
  expect_unchanged_by("epilogues", head + "%u = linear(%x, %w)\n%y = relu(%u)\n%z = tanh(%u)\nreturn %y, %z");
  expect_unchanged_by("epilogues", head + "%u = linear(%x, %w) {activation=\"tanh\"}\n%y = relu(%u)\nreturn %y");
  expect_unchanged_by("epilogues", head + "%u = linear(%x, %w)\n%y = relu(%u) device=cpu:1\nreturn %y");
  expect_unchanged_by("epilogues", head + "%u = linear(%x, %w)\n%y = exp(%u)\nreturn %y");
}

TEST(Epilogues, FoldTheActivationsGradientIntoTheProductThatFeedsIt) {
  EXPECT_EQ(shown_after("epilogues", R"(
    %g = input {shape=[3, 5]}
    %w = input {index=1, shape=[5, 4]}
    %y = input {index=2, shape=[3, 4]}
    %d = matmul(%g, %w)
    %e = tanh_backward(%d, %y)
    %f = matmul(%w, %g) {trans_a=true, trans_b=true}
    return %e, %f)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = matmul_act(%0, %1, %2) {activation="tanh"}
%4 = matmul(%1, %0) {trans_a=true, trans_b=true}
return %3, %4
)");
}

TEST(Epilogues, LeaveGradientsThatUseTheProductOtherwise) {
  const std::string head = R"(
    %g = input {shape=[3, 5]}
    %w = input {index=1, shape=[5, 4]}
    %y = input {index=2, shape=[3, 4]}
    %row = input {index=3, shape=[4]}
    %d = matmul(%g, %w)
)";
  expect_unchanged_by("epilogues", head + "%e = relu_backward(%y, %d)\nreturn %e");
  expect_unchanged_by("epilogues", head + "%e = relu_backward(%d, %d)\nreturn %e");
  expect_unchanged_by("epilogues", head + "%e = relu_backward(%d, %row)\nreturn %e");
  expect_unchanged_by("epilogues", head + "%e = relu_backward(%d, %y)\nreturn %e, %d");
  expect_unchanged_by("epilogues", head + "%late = exp(%y)\n%e = relu_backward(%d, %late)\nreturn %e");
}

const std::string kUpdate = R"(
    variable 0 "w" f32[5, 4]
    variable 1 "v" f32[5, 4]
    %g = input {shape=[3, 5]}
    %x = input {index=1, shape=[3, 4]}
    %lr = input {index=2}
    %w = variable {shape=[5, 4]}
    %v = variable {index=1, shape=[5, 4]}
)";

TEST(Epilogues, FoldUpdatesIntoTheProductThatIsTheirGradient) {
  EXPECT_EQ(shown_after("epilogues", kUpdate + R"(
    %d = matmul(%g, %x) {trans_a=true}
    %nw, %nv = sgd_update(%w, %v, %d, %lr) {momentum=0.9, weight_decay=0.5}
    assign(%nw)
    assign(%nv) {index=1}
    return)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = variable 0
%4 = variable 1
%5, %6 = matmul_sgd(%3, %4, %0, %1, %2) {trans_a=true, momentum=0.9, weight_decay=0.5}
assign 0(%5)
assign 1(%6)
return
)");
}

TEST(Epilogues, LeaveUpdatesWhoseGradientIsWantedOrReducedOrOfNesterov) {
  const std::string product = kUpdate + "%d = matmul(%g, %x) {trans_a=true}\n";
  expect_unchanged_by("epilogues", product + "%nw, %nv = sgd_update(%w, %v, %d, %lr)\nassign(%nw)\nreturn %d");
  expect_unchanged_by("epilogues",
                      product + "%s = all_reduce(%d)\n%nw, %nv = sgd_update(%w, %v, %s, %lr)\nassign(%nw)\nreturn");
  expect_unchanged_by("epilogues",
                      product + "%nw, %nv = sgd_update(%w, %v, %d, %lr) {nesterov=true}\nassign(%nw)\nreturn");
  expect_unchanged_by("epilogues", product + "%nw, %nv = sgd_update(%d, %v, %w, %lr)\nassign(%nw)\nreturn");
  expect_unchanged_by("epilogues", product + "%nw, %nv = sgd_update(%d, %v, %d, %lr)\nassign(%nw)\nreturn");
}

TEST(Epilogues, DoNotMoveAProductPastAnAssignOfItsFactor) {
  expect_unchanged_by("epilogues", R"(
    variable 0 "w" f32[4, 4]
    variable 1 "v" f32[4, 4]
    variable 2 "u" f32[4, 4]
    %x = input {shape=[4, 4]}
    %lr = input {index=1}
    %w = variable {shape=[4, 4]}
    %v = variable {index=1, shape=[4, 4]}
    %u = variable {index=2, shape=[4, 4]}
    %ut = transpose(%u)
    %d = matmul(%x, %ut)
    assign(%x) {index=2}
    %nw, %nv = sgd_update(%w, %v, %d, %lr)
    assign(%nw)
    return)");
}

TEST(Epilogues, TurnRowsThatAreAddedIntoBiases) {
  EXPECT_EQ(shown_after("epilogues", R"(
    %x = input {shape=[3, 4]}
    %w = input {index=1, shape=[4, 5]}
    %b = input {index=2, shape=[5]}
    %p = matmul(%x, %w)
    %u = add(%b, %p)
    %y = tanh(%u)
    %v = input {index=3, shape=[5, 4]}
    %q = matmul(%x, %v) {trans_b=true}
    %z = add(%q, %b)
    return %y, %z)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = transpose(%1) {order=[1, 0]}
%4 = linear(%0, %3, %2) {activation="tanh"}
%5 = input 3
%6 = linear(%0, %5, %2)
return %4, %6
)");
}

TEST(Epilogues, TurnNumbersOfChannelsThatAreAddedIntoBiases) {
  EXPECT_EQ(shown_after("epilogues", R"(
    %x = input {shape=[1, 2, 4, 4]}
    %w = input {index=1, shape=[3, 2, 3, 3]}
    %b = input {index=2, shape=[3, 1, 1]}
    %c = conv2d(%x, %w)
    %u = add(%c, %b)
    %y = relu(%u)
    return %y)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = reshape(%2) {shape=[3]}
%4 = conv2d(%0, %1, %3) {activation="relu"}
return %4
)");
}

TEST(Epilogues, LeaveSumsThatAreNoBias) {
  const std::string head = "%x = input {shape=[3, 4]}\n%w = input {index=1, shape=[4, 5]}\n%p = matmul(%x, %w)\n";
  expect_unchanged_by("epilogues", head + "%b = input {index=2, shape=[3, 1]}\n%y = add(%p, %b)\nreturn %y");
  expect_unchanged_by("epilogues", head + "%b = input {index=2, shape=[5]}\n%y = add(%p, %b)\nreturn %y, %p");
}

const std::string kLarge = R"(
    %x = input {shape=[8192, 64]}
    %w = input {index=1, shape=[512, 64]}
    %b = input {index=2, shape=[512]}
    %r = input {index=3, shape=[8192, 512]}
    %u = linear(%x, %w, %b)
)";

TEST(Epilogues, EndLinearMapsWithResidualsAndAnyActivation) {
  EXPECT_EQ(shown_after("epilogues", kLarge + R"(
    %s = add(%r, %u)
    %y = silu(%s)
    %v = linear(%x, %w)
    %z = leaky_relu(%v) {slope=0.2}
    %t = linear(%x, %w)
    %a = add(%t, %r)
    return %y, %z, %a)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4 = linear_epilogue(%0, %1, %2, %3) {biased=true, residual=true, activation="silu"}
%5 = linear_epilogue(%0, %1) {activation="leaky_relu", parameter=0.2}
%6 = linear_epilogue(%0, %1, %3) {residual=true}
return %4, %5, %6
)");
}

TEST(Epilogues, KeepTheValueBeforeAnActivationForItsGradient) {
  EXPECT_EQ(shown_after("epilogues", kLarge + R"(
    %y = gelu(%u)
    %d = gelu_backward(%r, %u)
    return %y, %d)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4, %5 = linear_epilogue(%0, %1, %2) {biased=true, activation="gelu", keep=true}
%6 = gelu_backward(%3, %5)
return %4, %6
)");
}

TEST(Epilogues, LeaveLinearMapsThatAreSmallOrReadBeforeTheirActivation) {
  expect_unchanged_by("epilogues", R"(
    %x = input {shape=[3, 4]}
    %w = input {index=1, shape=[5, 4]}
    %u = linear(%x, %w)
    %y = gelu(%u)
    return %y)");
  expect_unchanged_by("epilogues", kLarge + "%e = exp(%u)\n%y = gelu(%u)\nreturn %y, %e, %r");
  expect_unchanged_by("epilogues", kLarge + "%y = square(%u)\nreturn %y, %r");
}

TEST(Epilogues, DoNotCarryALinearMapPastAnAssignOfItsWeight) {
  expect_unchanged_by("epilogues", R"(
    variable 0 "w" f32[512, 64]
    %x = input {shape=[8192, 64]}
    %n = input {index=1, shape=[512, 64]}
    %w = variable {shape=[512, 64]}
    %u = linear(%x, %w)
    assign(%n)
    %y = gelu(%u)
    return %y)");
}

// On a GPU a convolution takes a residual; of two that are added the later one does.
TEST(Epilogues, ConvolutionsOnAGpuTakeTheResidualAndItsRelu) {
  const std::string body = R"(
    %x = input {shape=[2, 3, 8, 8]}
    %w = input {index=1, shape=[4, 3, 1, 1]}
    %b = input {index=2, shape=[4]}
    %c = conv2d(%x, %w, %b) @
    %d = conv2d(%x, %w, %b) {stride=[1, 1]} @
    %s = add(%d, %c) @
    %y = relu(%s) @
    return %y)";
  const auto on = [&](const std::string& device) {
    std::string text = body;
    for (std::size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 1, device);
    return text;
  };
  const std::string shown = print_short(after("epilogues", graph_of(on("device=cuda:0"))));
  EXPECT_NE(shown.find("%3 = conv2d(%0, %1, %2)"), std::string::npos) << shown;
  EXPECT_NE(shown.find("%4 = conv2d_residual(%0, %1, %2, %3) {activation=\"relu\"}"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("add("), std::string::npos) << shown;
  expect_unchanged_by("epilogues", on(""));
}

}  // namespace
}  // namespace starling::graph
