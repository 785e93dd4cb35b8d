// Greedy layer-wise training on small data.
#include <gtest/gtest.h>

#include "starling/starling.h"

namespace starling {
namespace {

// Noisy copies of a few patterns, so that there is something to learn.
std::shared_ptr<const Dataset> patterns(std::int64_t n, std::int64_t inputs) {
  manual_seed(2);
  const Tensor kinds = bernoulli({4, inputs}, 0.5);
  const Tensor picked = index_select(kinds, randint({n}, {.high = 4}), 0);
  const Tensor noisy = abs(picked - bernoulli({n, inputs}, 0.05));
  return std::make_shared<TensorDataset>(std::vector<Tensor>{noisy, randint({n}, {.high = 4})});
}

nn::Sequential small_net() {
  manual_seed(4);
  return zoo::dbn({.classes = 4, .inputs = 20, .hidden = {16, 12, 8}});
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Pretrain, HiddenLayersAreAllDenseOnesButTheLast) {
  const auto layers = zoo::hidden_layers(small_net());
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0].name, "fc1");
  EXPECT_EQ(layers[2].weight.shape(), (Shape{8, 12}));
  EXPECT_NE(error_of([] { zoo::hidden_layers(nn::Sequential()); }).find("expected a network with dense layers"),
            std::string::npos);
}

template <class Options, class F>
void expect_learning(F pretrain, const Options& options) {
  nn::Sequential net = small_net();
  const auto names_before = net.named_parameters();
  const auto last = names_before[names_before.size() - 2].second.to_vector();
  int told = 0;
  const auto layers =
      pretrain(net, patterns(512, 20), options, [&](const std::string&, std::int64_t, double) { ++told; });
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(told, 3 * static_cast<int>(options.epochs));
  for (const auto& layer : layers) EXPECT_LT(layer.losses.back(), layer.losses.front()) << layer.name;
  const auto after = net.named_parameters();
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].first, names_before[i].first);
  EXPECT_EQ(after[after.size() - 2].second.to_vector(), last) << "the layer that answers stays as it was";
}

TEST(Pretrain, EveryLayerOfAStackOfAutoencodersLearns) {
  expect_learning([](auto&&... a) { return zoo::pretrain_autoencoder(a...); },
                  zoo::AutoencoderPretrainOptions{.epochs = 5, .batch = 32});
}
TEST(Pretrain, EveryLayerOfAStackOfAutoencodersWithTwoWeightsLearns) {
  expect_learning([](auto&&... a) { return zoo::pretrain_autoencoder(a...); },
                  zoo::AutoencoderPretrainOptions{.epochs = 5, .batch = 32, .tied = false});
}
TEST(Pretrain, EveryLayerOfADeepBeliefNetworkLearns) {
  expect_learning([](auto&&... a) { return zoo::pretrain_rbm(a...); },
                  zoo::RbmPretrainOptions{.epochs = 8, .batch = 32, .lr = 0.1});
}
TEST(Pretrain, GaussianUnitsLearnFromNumbersAroundZero) {
  nn::Sequential net = small_net();
  manual_seed(2);
  const Tensor hidden = normal({512, 2}), x = matmul(hidden, normal({2, 20})) * 0.7 + normal({512, 20}) * 0.1;
  const auto data = std::make_shared<TensorDataset>(std::vector<Tensor>{x});
  const auto layers = zoo::pretrain_rbm(
      net, data, {.epochs = 8, .batch = 32, .lr = 0.01, .visible = zoo::VisibleUnits::gaussian, .layers = 1});
  ASSERT_EQ(layers.size(), 1U);
  EXPECT_LT(layers[0].losses.back(), 0.8 * layers[0].losses.front());
}

TEST(Pretrain, TheSameSeedGivesTheSameWeights) {
  nn::Sequential a = small_net(), b = small_net();
  for (nn::Sequential* net : {&a, &b}) zoo::pretrain_rbm(*net, patterns(256, 20), {.epochs = 2, .batch = 32});
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    EXPECT_EQ(a.parameters()[i].to_vector(), b.parameters()[i].to_vector());
}

TEST(Pretrain, JobsChooseAWayByName) {
  const auto node = ConfigNode::parse("{name: autoencoder, epochs: 2, batch: 32, noise: 0.1, layers: 2}", "job.yaml");
  nn::Sequential net = small_net();
  const auto layers = zoo::pretrain_kinds().choose(node).make()(net, patterns(128, 20), {});
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].losses.size(), 2U);
  const auto wrong = ConfigNode::parse("{name: rbm, noise: 0.1}", "job.yaml");
  EXPECT_NE(error_of([&] { zoo::pretrain_kinds().choose(wrong); }).find("job.yaml:1:"), std::string::npos);
}

TEST(Pretrain, SamplesOfAnotherSizeAreRefused) {
  nn::Sequential net = small_net();
  EXPECT_NE(error_of([&] { zoo::pretrain_rbm(net, patterns(64, 19)); }).find("expected samples of 20 numbers"),
            std::string::npos);
}

}  // namespace
}  // namespace starling
