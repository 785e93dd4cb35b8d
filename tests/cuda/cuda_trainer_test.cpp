// Trainers whose network is on a GPU: batches are put there ahead of time, losses come late.
#include <gtest/gtest.h>

#include <numeric>

#include "cuda/cuda_testing.h"
#include "starling/starling.h"
#include "starling/tensor/device_copies.h"
#include "starling/training.h"

namespace starling::testing {
namespace {

std::shared_ptr<const Dataset> points(std::int64_t count) {
  manual_seed(11);
  const Tensor x = normal({count, 12});
  std::vector<double> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(x.data<float>()[12 * i] > 0 ? 1 : 0);
  return std::make_shared<TensorDataset>(std::vector<Tensor>{x, from_doubles(labels, {count}, DType::i64)});
}

// Losses of all steps, in order, and the mean that the run tells.
struct Losses {
  std::vector<double> all;
  double mean = 0;
  double accuracy = 0;
};

class Listens final : public Callback {
 public:
  Listens(std::vector<double>& losses, bool looks) : losses_(losses), looks_(looks) {}
  std::string name() const override { return "listens"; }
  bool looks_at_loss(std::int64_t) const override { return looks_; }
  void learned(Run&, const StepLoss& loss) override { losses_.push_back(loss.loss); }

 private:
  std::vector<double>& losses_;
  bool looks_;
};

Losses trained(Device device, bool looks) {
  manual_seed(5);
  nn::Sequential net;
  net.add("fc1", nn::Linear({.in = 12, .out = 32}))
      .add("tanh", nn::Tanh())
      .add("fc2", nn::Linear({.in = 32, .out = 2}));
  net.to(device);
  default_generator().to(device);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  TrainerOptions options{.epochs = 3, .seed = 3, .batch = 16};
  options.progress.mode = ProgressMode::off;
  Losses found;
  Trainer trainer(net, optimizer, classify(), options);
  trainer.add(std::make_shared<Listens>(found.all, looks));
  const FitResult result = trainer.fit(points(1000), points(200));
  default_generator().to(kCpu);
  found.mean = result.summary.loss;
  found.accuracy = result.summary.metrics.at("accuracy");
  return found;
}

class CudaTrainer : public OnGpu {};

TEST_F(CudaTrainer, LateLossesAreThoseThatTheHostWaitsFor) {
  const Losses late = trained(kGpu, false), waited = trained(kGpu, true);
  ASSERT_EQ(late.all.size(), 3U * 63);
  EXPECT_EQ(late.all, waited.all);
  EXPECT_EQ(late.mean, waited.mean);
  EXPECT_EQ(late.accuracy, waited.accuracy);
}

TEST_F(CudaTrainer, LossesAreThoseOfTheCpu) {
  const Losses here = trained(kCpu, false), there = trained(kGpu, false);
  ASSERT_EQ(here.all.size(), there.all.size());
  for (std::size_t i = 0; i < here.all.size(); ++i) EXPECT_NEAR(here.all[i], there.all[i], 2e-3) << "step " << i + 1;
  EXPECT_NEAR(here.accuracy, there.accuracy, 0.02);
}

TEST_F(CudaTrainer, CopiesToTheDeviceWaitForProgramsThatStillRead) {
  const auto copies = device_copies(kGpu);
  const std::int64_t n = 1 << 22;
  const Tensor host = copies->pinned({n}, DType::f32), back = copies->pinned({n}, DType::f32);
  const Tensor there = empty({n}, DType::f32, kGpu);
  const auto arrived = copies->mark(), used = copies->mark(), returned = copies->mark();
  for (int round = 0; round < 5; ++round) {
    arrived->wait();
    std::fill_n(host.data<float>(), n, static_cast<float>(round));
    used->copies_wait();
    copies->to_device(there.raw(), host.raw(), bytes_of(host));
    arrived->set_after_copies();
    arrived->programs_wait();
    Tensor sum = there;
    for (int i = 0; i < 20; ++i) sum = add(sum, there);
    used->set_after_programs();
    copies->to_host(back.raw(), sum.raw(), bytes_of(back));
    returned->set_after_programs();
    returned->wait();
    EXPECT_EQ(back.data<float>()[0], 21.0F * static_cast<float>(round));
    EXPECT_EQ(back.data<float>()[n - 1], 21.0F * static_cast<float>(round));
  }
}

}  // namespace
}  // namespace starling::testing
