// Block momentum of CNTK, as the preset makes it.
#include <gtest/gtest.h>

#include "dist/strategy_testing.h"
#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {
namespace {

std::shared_ptr<RankStrategy> bmuf(Comm& comm, const std::string& options) {
  return strategy_kinds().choose(ConfigNode::parse(options, "job")).make()(testing::borrowed(comm));
}

// One weight of two ranks, which moves by 1 and 3 a step: after each block of two steps, w.
std::vector<double> blocks(const std::string& options) {
  std::vector<double> seen;
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    Tensor w = zeros({1}, DType::f64);
    w.set_name("w").set_requires_grad();
    optim::Sgd sgd({w}, {.lr = 1, .momentum = 0.5});
    const auto strategy = bmuf(comm, options);
    std::vector<NamedTensor> moments;
    for (const auto& [name, tensor] : sgd.state()) moments.push_back({name, tensor});
    strategy->begin({.weights = {{"w", w}}, .optimizer = moments, .rule = &sgd});
    const Tensor velocity = moments.back().tensor;
    for (int step = 0; step < 8; ++step) {
      *w.data<double>() += comm.rank() == 0 ? 1.0 : 3.0;
      *velocity.data<double>() = 7;
      strategy->after_update(step, 1);
      if (comm.rank() == 0 && step % 2 == 1) seen.push_back(w.item());
      if (options.find("reset_optimizer: false") == std::string::npos) {
        EXPECT_EQ(velocity.item(), step % 2 == 1 ? 0 : 7) << "moments begin anew with a block";
      } else {
        EXPECT_EQ(velocity.item(), 7);
      }
    }
  });
  return seen;
}

// Δ(t) = η·Δ(t-1) + ζ·G(t) with G = mean - W(t-1), and W(t) = W(t-1) + Δ(t); Nesterov's broadcasts W(t) + η·Δ(t).
std::vector<double> by_hand(double momentum, double lr, bool nesterov) {
  std::vector<double> seen;
  double w = 0, moved = 0, sent = 0;
  for (int block = 0; block < 4; ++block) {
    const double mean = sent + 2 * 2;
    moved = momentum * moved + lr * (mean - sent);
    w += moved;
    sent = nesterov ? w + momentum * moved : w;
    seen.push_back(sent);
  }
  return seen;
}

void expect_close(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << "block " << i;
}

TEST(Bmuf, FiltersTheWayOfTheMeansByAMomentumOfBlocks) {
  expect_close(blocks("{name: bmuf, every: 2}"), by_hand(0.5, 1, true));  // 1 - 1/P
  expect_close(blocks("{name: bmuf, every: 2, nesterov: false}"), by_hand(0.5, 1, false));
  expect_close(blocks("{name: bmuf, every: 2, momentum: 0.75, lr: 0.5, reset_optimizer: false}"),
               by_hand(0.75, 0.5, true));
}

TEST(Bmuf, ControlWithoutMomentumItIsTheMean) {
  const std::vector<double> mean{4, 8, 12, 16};
  expect_close(blocks("{name: bmuf, every: 2, momentum: 0}"), mean);
  EXPECT_GT(blocks("{name: bmuf, every: 2}").back(), 17);
}

}  // namespace
}  // namespace starling::dist
