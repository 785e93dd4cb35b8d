#include "starling/nn/summary.h"

#include <gtest/gtest.h>

#include <sstream>

#include "starling/starling.h"

namespace starling {
namespace {

const nn::LayerSummary& row(const nn::Summary& all, const std::string& name) {
  for (const auto& layer : all.layers) {
    if (layer.name == name) return layer;
  }
  ADD_FAILURE() << name << " is not there";
  return all.layers.front();
}

TEST(Summary, CountsParametersAndFlopsOfLeNet) {
  auto net = zoo::lenet();
  const nn::Summary all = nn::summary(net, {1, 28, 28}, {.batch = 2});
  EXPECT_EQ(all.parameters, net.parameter_count());
  EXPECT_EQ(row(all, "conv1").kind, "Conv2d");
  EXPECT_EQ(row(all, "conv1").parameters, 20 * 25 + 20);
  EXPECT_EQ(row(all, "conv1").outputs.at(0).shape, (Shape{2, 20, 24, 24}));
  const double products = 2.0 * 2 * 20 * 24 * 24 * 25;
  EXPECT_GE(row(all, "conv1").flops, products);
  EXPECT_LE(row(all, "conv1").flops, products * 1.05) << "and the bias";
  EXPECT_GE(row(all, "fc1").flops, 2.0 * 2 * 800 * 500);
  EXPECT_LE(row(all, "fc1").flops, 2.0 * 2 * 800 * 500 * 1.01);
  EXPECT_EQ(row(all, "flatten").flops, 0);
  double flops = 0;
  std::int64_t parameters = 0;
  for (const auto& layer : all.layers) {
    flops += layer.flops;
    parameters += layer.parameters;
  }
  EXPECT_EQ(flops, all.flops);
  EXPECT_EQ(parameters, all.parameters);
  EXPECT_EQ(all.outputs.at(0).shape, (Shape{2, 10}));
}

TEST(Summary, PrintsATableInTheOrderOfCalls) {
  nn::Sequential net;
  net.add("fc", nn::Linear({.in = 3, .out = 4})).add("act", nn::Relu());
  const std::string table =
      "layer    kind    output  parameters  FLOPs\n"
      "(input)          [1, 3]                   \n"
      "fc       Linear  [1, 4]          16     28\n"
      "act      Relu    [1, 4]           0      4\n"
      "total            [1, 4]          16     32\n";
  ::testing::internal::CaptureStdout();
  nn::summary(net, {3}).print();
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), table);
  std::ostringstream out;
  out << nn::summary(net, {3});
  EXPECT_EQ(out.str(), table);
}

TEST(Summary, ContainersHaveRowsWhereTheyDoSomethingThemselves) {
  nn::Sequential body, net;
  body.add("fc", nn::Linear({.in = 4, .out = 4}));
  net.add("block", nn::Residual(body));
  const nn::Summary all = nn::summary(net, {4});
  ASSERT_EQ(all.layers.size(), 2U);
  EXPECT_EQ(row(all, "block").flops, 4) << "the addition";
  EXPECT_EQ(row(all, "block.body.fc").parameters, 20);
}

TEST(Summary, TellsFrozenAndUncalledAndRepeated) {
  nn::Sequential net;
  net.add_shared("many", std::make_shared<nn::Recur>(3, std::make_shared<nn::Linear>(nn::LinearOptions{2, 2})));
  net.freeze();
  const nn::Summary all = nn::summary(net, {2});
  EXPECT_EQ(row(all, "many.body").calls, 3);
  EXPECT_EQ(row(all, "many.body").parameters, 6);
  EXPECT_EQ(all.trainable, 0);
  EXPECT_NE(all.text().find("Linear ×3 (frozen)"), std::string::npos) << all;
  EXPECT_NE(all.text().find("0 of the parameters are trained"), std::string::npos);
}

TEST(Summary, ChangesNothing) {
  manual_seed(3);
  nn::Sequential net;
  net.add("norm", nn::BatchNorm1d({.channels = 2})).add("drop", nn::Dropout(0.5));
  net.find("drop").eval();
  nn::summary(net, {2});
  EXPECT_TRUE(net.training());
  EXPECT_TRUE(net.find("norm").training());
  EXPECT_FALSE(net.find("drop").training());
  EXPECT_EQ(net.buffers()[0].to_vector(), (std::vector<double>{0, 0}));
}

TEST(Summary, TakesSeveralInputs) {
  nn::MultiHeadAttention attention({.width = 8, .heads = 2, .key_width = 6});
  const TensorType in[] = {{DType::f32, {2, 5, 8}}, {DType::f32, {2, 3, 6}}};
  const nn::Summary all = nn::summary(attention, in);
  EXPECT_EQ(all.outputs.at(0).shape, (Shape{2, 5, 8}));
  EXPECT_EQ(row(all, "k").outputs.at(0).shape, (Shape{2, 3, 8}));
  EXPECT_GT(row(all, "").flops, 0) << "attention itself";
}

}  // namespace
}  // namespace starling
