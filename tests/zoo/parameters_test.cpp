// As many parameters as published: the figures of torchvision's models (its documentation lists them as "num_params"),
// sums written out for the others.
#include <gtest/gtest.h>

#include "starling/starling.h"

namespace starling {
namespace {

std::int64_t count(const char* name) { return zoo::nets().by_name(name).make().make()->parameter_count(); }

TEST(ZooParameters, ResidualNetworksHaveThePublishedNumber) {
  EXPECT_EQ(count("resnet18"), 11'689'512);
  EXPECT_EQ(count("resnet34"), 21'797'672);
  EXPECT_EQ(count("resnet50"), 25'557'032);
  EXPECT_EQ(count("resnet101"), 44'549'160);
  EXPECT_EQ(count("resnet152"), 60'192'808);
}

TEST(ZooParameters, AlexNetHasThePublishedNumber) { EXPECT_EQ(count("alexnet_owt"), 61'100'840); }

TEST(ZooParameters, DistBeliefsSpeechNetHas42Million) {
  const std::int64_t weights = 440 * 2560 + 3 * 2560 * 2560 + 2560 * 8192, biases = 4 * 2560 + 8192;
  EXPECT_EQ(count("speech"), weights + biases);
  EXPECT_NEAR(static_cast<double>(weights), 42e6, 0.5e6);
}

TEST(ZooParameters, SequenceModelsAddUp) {
  EXPECT_EQ(count("lstm"), 10'000 * 128 + 2 * 512 * 128 + 2 * 512 + 128 * 2 + 2);
  // two embeddings, six blocks (two norms, four projections), a norm, a head without bias
  const std::int64_t w = 384, block = 2 * 2 * w + (3 * w * w + 3 * w) + (w * w + w) + (8 * w * w + 5 * w);
  EXPECT_EQ(count("gpt"), 65 * w + 256 * w + 6 * block + 2 * w + 65 * w);
}

}  // namespace
}  // namespace starling
