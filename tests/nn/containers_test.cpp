#include <gtest/gtest.h>

#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

TEST(Parallel, JoinsWhatItsBranchesMake) {
  nn::Parallel sum(nn::Join::sum), product(nn::Join::product), beside;
  for (auto* net : {&sum, &product, &beside}) net->add("a", nn::Relu()).add("b", nn::Tanh());
  const Tensor x = normal({2, 3});
  EXPECT_EQ(sum(x).to_vector(), add(relu(x), tanh(x)).to_vector());
  EXPECT_EQ(product(x).to_vector(), mul(relu(x), tanh(x)).to_vector());
  EXPECT_EQ(beside(x).to_vector(), concat({relu(x), tanh(x)}, 1).to_vector());
  EXPECT_THROW(nn::Parallel()(x), Error);
}

TEST(ModuleList, HoldsModulesByNumber) {
  nn::ModuleList list;
  list.add(nn::Linear({.in = 2, .out = 3})).add(nn::Linear({.in = 3, .out = 1}));
  EXPECT_EQ(list.size(), 2U);
  EXPECT_EQ(list.named_parameters()[2].first, "1.weight");
  EXPECT_EQ(list[1](list[0](zeros({4, 2}))).shape(), (Shape{4, 1}));
  EXPECT_THROW(list(zeros({4, 2})), Error);
}

TEST(Wired, ReadsByNameAndRefusesOthers) {
  nn::Wired net;
  net.add("a", nn::Relu()).add("b", nn::Tanh(), {"input"}).add("both", nn::Add(), {"a", "b"});
  const Tensor x = normal({2, 3});
  EXPECT_EQ(net(x).to_vector(), add(relu(x), tanh(x)).to_vector());
  EXPECT_TRUE(net.unread().empty());
  EXPECT_THROW(net.add("c", nn::Relu(), {"boht"}), Error);
  net.add("d", nn::Relu(), {"a"});
  EXPECT_EQ(net.unread(), std::vector<std::string>{"both"});
}

}  // namespace
}  // namespace starling
