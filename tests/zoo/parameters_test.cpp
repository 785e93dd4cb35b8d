// Parameter counts as published: the figures of torchvision's models (its documentation lists them as "num_params"),
// sums written out for the others.
#include <gtest/gtest.h>

#include <fstream>

#include "starling/nn/deferred_weights.h"
#include "starling/starling.h"

namespace starling {
namespace {

std::int64_t count(const char* name) {
  const nn::DeferredWeights deferred;  // how many there are does not depend on their numbers, which are not drawn
  return zoo::nets().by_name(name).make().make()->parameter_count();
}

TEST(ZooParameters, ResidualNetworksHaveThePublishedNumber) {
  EXPECT_EQ(count("resnet18"), 11'689'512);
  EXPECT_EQ(count("resnet34"), 21'797'672);
  EXPECT_EQ(count("resnet50"), 25'557'032);
  EXPECT_EQ(count("resnet101"), 44'549'160);
  EXPECT_EQ(count("resnet152"), 60'192'808);
}

TEST(ZooParameters, AlexNetHasThePublishedNumber) { EXPECT_EQ(count("alexnet_owt"), 61'100'840); }

TEST(ZooParameters, VggHasThePublishedNumber) {
  EXPECT_EQ(count("vgg11"), 132'863'336);
  EXPECT_EQ(count("vgg11_bn"), 132'868'840);
  EXPECT_EQ(count("vgg13"), 133'047'848);
  EXPECT_EQ(count("vgg13_bn"), 133'053'736);
  EXPECT_EQ(count("vgg16"), 138'357'544);
  EXPECT_EQ(count("vgg16_bn"), 138'365'992);
  EXPECT_EQ(count("vgg19"), 143'667'240);
  EXPECT_EQ(count("vgg19_bn"), 143'678'248);
}

TEST(ZooParameters, GoogLeNetHasThePublishedNumberWithAndWithoutItsAuxiliaryHeads) {
  EXPECT_EQ(count("googlenet"), 6'624'904);
  EXPECT_EQ(zoo::Googlenet({.auxiliary = true}).parameter_count(), 13'004'888);
}

TEST(ZooParameters, MobileNetworksHaveThePublishedNumber) {
  EXPECT_EQ(count("mobilenet_v2"), 3'504'872);
  EXPECT_EQ(count("efficientnet_b0"), 5'288'548);
}

// The number that a widely used PyTorch version with batch norm and transposed convolutions has for two classes.
TEST(ZooParameters, UnetHasTheKnownNumber) { EXPECT_EQ(count("unet"), 31'037'698); }

TEST(ZooParameters, AutoencodersAddUp) {
  const std::int64_t sizes[] = {784, 1000, 500, 250, 30};
  std::int64_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += 2 * sizes[i] * sizes[i + 1] + sizes[i] + sizes[i + 1];
  EXPECT_EQ(count("stacked_autoencoder"), sum);
  EXPECT_EQ(count("denoising_autoencoder"), 2 * 784 * 500 + 784 + 500);
  EXPECT_EQ(count("conv_autoencoder"), (16 * 9 + 16) + (32 * 16 * 9 + 32) + (32 * 16 * 4 + 16) + (16 * 4 + 1));
  EXPECT_EQ(count("vae"), (784 * 400 + 400) + 2 * (400 * 20 + 20) + (20 * 400 + 400) + (400 * 784 + 784));
  EXPECT_EQ(count("rbm"), 784 * 500 + 784 + 500);
  EXPECT_EQ(count("dbn"), (784 * 500 + 500) + (500 * 500 + 500) + (500 * 2000 + 2000) + (2000 * 10 + 10));
}

TEST(ZooParameters, DistBeliefsSpeechNetHas42Million) {
  const std::int64_t weights = 440 * 2560 + 3 * 2560 * 2560 + 2560 * 8192, biases = 4 * 2560 + 8192;
  EXPECT_EQ(count("speech"), weights + biases);
  EXPECT_NEAR(static_cast<double>(weights), 42e6, 0.5e6);
}

TEST(ZooParameters, SequenceModelsAddUp) {
  EXPECT_EQ(count("lstm"), 10'000 * 128 + 2 * 512 * 128 + 2 * 512 + 128 * 2 + 2);
  EXPECT_EQ(count("gru"), 10'000 * 128 + 2 * 384 * 128 + 2 * 384 + 128 * 2 + 2);
  EXPECT_EQ(count("lstm_lm"), 65 * 256 + 2 * (2 * 1024 * 256 + 2 * 1024) + 256 * 65 + 65);
  // two embeddings, six blocks (two norms, four projections), a norm, a head without bias
  const std::int64_t w = 384, block = 2 * 2 * w + (3 * w * w + 3 * w) + (w * w + w) + (8 * w * w + 5 * w);
  EXPECT_EQ(count("gpt"), 65 * w + 256 * w + 6 * block + 2 * w + 65 * w);
  // GPT-2's 124 million, with 47 more rows of the embedding, which is the head too
  EXPECT_EQ(count("gpt2"), 124'439'808 + 47 * 768);
}

// The table in docs/zoo.md matches the networks.
TEST(ZooParameters, TheDocumentationNamesEveryNetworkAndItsNumber) {
  std::ifstream file(STARLING_SOURCE_FOLDER "/docs/zoo.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& name : zoo::nets().names()) {
    EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
    std::string number = std::to_string(count(name.c_str()));
    for (auto at = static_cast<std::ptrdiff_t>(number.size()) - 3; at > 0; at -= 3)
      number.insert(static_cast<std::size_t>(at), ",");
    EXPECT_NE(text.find(number), std::string::npos) << name << " has " << number;
  }
}

}  // namespace
}  // namespace starling
