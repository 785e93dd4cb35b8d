#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kOperands = R"(
    %x = input {shape=[4, 3, 5, 5]}
    %w = input {index=1, shape=[3]}
    %b = input {index=2, shape=[3]}
    %r = input {index=3, shape=[4, 3, 5, 5]}
)";

TEST(NormActivation, JoinsANormAndItsRelu) {
  EXPECT_EQ(shown_after("norm_activation", kOperands + R"(
    %y, %m, %v = batch_norm_train(%x, %w, %b)
    %z = relu(%y)
    return %z, %m, %v)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4, %5, %6 = batch_norm_relu(%0, %1, %2)
return %4, %5, %6
)");
}

TEST(NormActivation, TakesAResidualAlong) {
  // Readers of the statistics come after the fused node.
  EXPECT_EQ(shown_after("norm_activation", kOperands + R"(
    %y, %m, %v = batch_norm_train(%x, %w, %b)
    %n = neg(%m)
    %t = tanh(%r)
    %s = add(%t, %y)
    %z = relu(%s)
    return %z, %n)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4 = tanh(%3)
%5, %6, %7 = batch_norm_relu(%0, %1, %2, %4)
%8 = neg(%6)
return %5, %8
)");
}

TEST(NormActivation, JoinsTheGradientsOfBoth) {
  EXPECT_EQ(shown_after("norm_activation", kOperands + R"(
    %v = input {index=4, shape=[3]}
    %g = relu_backward(%r, %x)
    %dx, %dw, %db = batch_norm_train_backward(%g, %x, %b, %v, %w)
    return %dx, %dw, %db)"),
            R"(
%0 = input 0
%1 = input 1
%2 = input 2
%3 = input 3
%4 = input 4
%5, %6, %7 = batch_norm_relu_backward(%3, %0, %0, %2, %4, %1)
return %5, %6, %7
)");
}

// On a GPU the mask is made of x again, unless a residual was added to it.
TEST(NormActivation, GradientsOnAGpuMakeTheMaskAgain) {
  const auto net = [](const std::string& between, const std::string& device) {
    std::string body = kOperands + R"(
    %y, %m, %v = batch_norm_train(%x, %w, %b)!
    )" + between + R"(
    %z = relu(%s)!
    %g = relu_backward(%r, %z)!
    %dx, %dw, %db = batch_norm_train_backward(%g, %x, %m, %v, %w)!
    return %z, %dx, %dw, %db)";
    for (std::size_t at; (at = body.find('!')) != std::string::npos;) body.replace(at, 1, device);
    return print_short(after("norm_activation", graph_of(body)));
  };
  const std::string gpu = " device=cuda:0", plain = "%s = identity(%y)!", residual = "%s = add(%y, %r)!";
  const std::string shown = net(plain, gpu);
  EXPECT_EQ(shown.find("batch_norm_positive_backward"), std::string::npos) << "only a relu right behind: " << shown;
  EXPECT_NE(net(residual, gpu).find("batch_norm_relu_backward"), std::string::npos);
  std::string direct = kOperands + R"(
    %y, %m, %v = batch_norm_train(%x, %w, %b) device=cuda:0
    %z = relu(%y) device=cuda:0
    %g = relu_backward(%r, %z) device=cuda:0
    %dx, %dw, %db = batch_norm_train_backward(%g, %x, %m, %v, %w) device=cuda:0
    return %z, %dx, %dw, %db)";
  const std::string made = print_short(after("norm_activation", graph_of(direct)));
  EXPECT_NE(made.find("batch_norm_positive_backward(%3, %0, %5, %6, %1, %2)"), std::string::npos) << made;
}

TEST(NormActivation, LeavesWhatOthersReadBetween) {
  expect_unchanged_by("norm_activation",
                      kOperands + "%y, %m, %v = batch_norm_train(%x, %w, %b)\n%z = relu(%y)\nreturn %z, %y");
  expect_unchanged_by("norm_activation",
                      kOperands +
                          "%g = relu_backward(%r, %x)\n%dx, %dw, %db = batch_norm_train_backward(%g, %x, %b, "
                          "%w, %w)\nreturn %dx, %dw, %db, %g");
  expect_unchanged_by("norm_activation", kOperands + R"(
    %y, %m, %v = batch_norm_train(%x, %w, %b)
    %s = add(%y, %r)
    %z = relu(%s)
    return %z, %s)");
}

TEST(NormActivation, MakesNoCycleThroughTheStatistics) {
  expect_unchanged_by("norm_activation", kOperands + R"(
    %y, %m, %v = batch_norm_train(%x, %w, %b)
    %c = reshape(%m) {shape=[3, 1, 1]}
    %t = sub(%r, %c)
    %s = add(%y, %t)
    %z = relu(%s)
    return %z)");
}

TEST(NormActivation, MakesAChainOfAnInferredNormAndWhatFollows) {
  const Graph graph = graph_of(kOperands + R"(
    %m = input {index=4, shape=[3]}
    %v = input {index=5, shape=[3]}
    %y = batch_norm_infer(%x, %m, %v, %w, %b)
    %s = add(%y, %r)
    %z = relu(%s)
    return %z)");
  const Graph made = after("fuse", after("norm_activation", graph));
  int wide = 0;
  for (const Node& node : made.nodes()) {
    const Value& out = made.value(node.out[0]);
    wide += !is_source(node) && out.type.shape.numel() > 3;
  }
  EXPECT_EQ(wide, 1) << print(made);
}

TEST(NormActivation, LeavesAnInferredNormAloneThatNoChainFollows) {
  expect_unchanged_by("norm_activation", kOperands + R"(
    %m = input {index=4, shape=[3]}
    %v = input {index=5, shape=[3]}
    %y = batch_norm_infer(%x, %m, %v, %w, %b)
    %z = softmax(%y)
    return %z)");
}

}  // namespace
}  // namespace starling::graph
