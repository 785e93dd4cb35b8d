// Every network of the zoo, its training step placed over two logical CPUs, against the same step on one.
#include <gtest/gtest.h>

#include "runtime/placement_testing.h"
#include "runtime/step_testing.h"

namespace starling {
namespace {

using testing::bit_equal;
using testing::logical_cpus;

struct SmallStep {
  const zoo::Net& known;
  nn::Sequential net;
  optim::Sgd opt;
  zoo::Batch batch;

  explicit SmallStep(const std::string& name)
      : known(zoo::find(name)),
        net(make(known)),
        opt(net.parameters(), {.lr = 0.01, .momentum = 0.9}),
        batch(zoo::random_batch(known, known.small)) {
    manual_seed(7);
  }

  Tensor step(const Tensor& x, const Tensor& y) {
    Tensor loss = zoo::loss(net(x), y);
    loss.backward();
    opt.step();
    return loss;
  }

 private:
  static nn::Sequential make(const zoo::Net& known) {
    manual_seed(7);
    return known.make(known.small.options);
  }
};

// Costs that differ from node to node and device to device, so that the placer spreads the nodes.
double scattered(const Graph&, NodeId id, const PlacedDevice& device) {
  const auto hash = static_cast<unsigned>(id * 7919 + device.device.index * 104729) * 2654435761u;
  return 1e-3 * (1 + (hash >> 16) % 9);
}

class PlacedNet : public ::testing::TestWithParam<std::string> {};

TEST_P(PlacedNet, TrainsAsOnOneDeviceBitForBit) {
  SmallStep plain(GetParam()), split(GetParam());
  auto options = logical_cpus(2);
  options.measured = scattered;
  auto one = compile([&](const Tensor& x, const Tensor& y) { return plain.step(x, y); }, {.threads = 1});
  auto two = compile([&](const Tensor& x, const Tensor& y) { return split.step(x, y); },
                     {.threads = 1, .strategy = placed(options)});
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(bit_equal(one(plain.batch.x, plain.batch.y), two(split.batch.x, split.batch.y))) << "step " << step;
  }
  const auto want = plain.net.named_parameters(), got = split.net.named_parameters();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(bit_equal(want[i].second, got[i].second)) << want[i].first;
  EXPECT_EQ(two.explain().find("with 0 transfers"), std::string::npos);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, net] : zoo::nets()) {
    if (net.small.batch > 0) all.push_back(name);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Zoo, PlacedNet, ::testing::ValuesIn(names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace starling
