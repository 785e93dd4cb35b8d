// Every network of the zoo, its training step placed over two logical CPUs, against the same step on one.
#include <gtest/gtest.h>

#include "runtime/placement_testing.h"
#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

using testing::bit_equal;
using testing::logical_cpus;

struct SmallStep {
  zoo::Sized sized;
  zoo::Recipe recipe;
  std::shared_ptr<nn::Module> net;
  optim::Sgd opt;
  TensorList batch;

  explicit SmallStep(const std::string& name)
      : sized(zoo::nets().small(name)),
        recipe(sized.net.make()),
        net(make(recipe)),
        opt(net->parameters(), {.lr = 0.01, .momentum = 0.9}),
        batch(zoo::random_batch(recipe, sized.batch)) {
    manual_seed(7);
  }

  CompiledFunction compiled(CompileOptions options) {
    const auto step = [this](std::span<const Tensor> in) {
      const Tensor loss = zoo::loss(recipe, *net, in);
      loss.backward();
      opt.step();
      return TensorList{loss};
    };
    return {step, std::move(options)};
  }
  std::span<const Tensor> fields() const { return {batch.data(), batch.size()}; }

 private:
  static std::shared_ptr<nn::Module> make(const zoo::Recipe& recipe) {
    manual_seed(7);
    return recipe.make();
  }
};

// Costs that differ from node to node and device to device, so that the placer spreads the nodes.
double scattered(const graph::Graph&, graph::NodeId id, const graph::PlacedDevice& device) {
  const auto hash = static_cast<unsigned>(id * 7919 + device.device.index * 104729) * 2654435761u;
  return 1e-3 * (1 + (hash >> 16) % 9);
}

class PlacedNet : public ::testing::TestWithParam<std::string> {};

TEST_P(PlacedNet, TrainsAsOnOneDeviceBitForBit) {
  SmallStep plain(GetParam()), split(GetParam());
  auto options = logical_cpus(2);
  options.measured = scattered;
  auto one = plain.compiled({.threads = 1});
  auto two = split.compiled({.threads = 1, .strategy = placed(options)});
  for (int step = 0; step < 2; ++step) {
    manual_seed(7 + step);  // networks with noise draw the same numbers in both
    const Tensor want = one.call(plain.fields())[0];
    manual_seed(7 + step);
    EXPECT_TRUE(bit_equal(want, two.call(split.fields())[0])) << "step " << step;
  }
  const auto want = plain.net->named_parameters(), got = split.net->named_parameters();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(bit_equal(want[i].second, got[i].second)) << want[i].first;
  EXPECT_EQ(two.explain().find("with 0 transfers"), std::string::npos);
}

std::vector<std::string> names() { return zoo::nets().names(); }

INSTANTIATE_TEST_SUITE_P(Zoo, PlacedNet, ::testing::ValuesIn(names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace starling::runtime
