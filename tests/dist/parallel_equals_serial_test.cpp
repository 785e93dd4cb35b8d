// P ranks with b rows each against one with P · b, and against one whose rows P cannot share evenly.
#include <gtest/gtest.h>

#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

struct Net {
  const char* name;
  nlohmann::json options = {};
  bool has_batch_norm = false;
};
std::ostream& operator<<(std::ostream& out, const Net& net) { return out << net.name; }

const Net kNets[] = {
    {"lenet"},
    {"lstm"},
    {"resnet18", {{"image", 32}, {"width", 0.125}}, true},
    {"gpt"},
};

enum class Norm { local, global };

// The small setting of a network with its optimizer and one batch: two of the same dtype begin alike.
struct Step {
  zoo::Recipe recipe;
  std::shared_ptr<nn::Module> net;
  optim::Sgd opt;
  TensorList batch;

  Step(const Net& which, std::int64_t rows, DType dtype, Norm norm)
      : recipe(chosen(which).make()),
        net(make(recipe, dtype, norm)),
        opt(net->parameters(), {.lr = 0.01, .momentum = 0.9}),
        batch(zoo::random_batch(recipe, rows, dtype)) {
    manual_seed(7);
  }

  std::span<const Tensor> fields() const { return {batch.data(), batch.size()}; }

  TensorList gradients_of(std::span<const Tensor> in) {
    const Tensor loss = zoo::loss(recipe, *net, in);
    TensorList all = gradients({&loss, 1}, net->parameters());
    all.push_back(loss.detach());
    return all;
  }

  Tensor step(std::span<const Tensor> in) {
    Tensor loss = zoo::loss(recipe, *net, in);
    loss.backward();
    opt.step();
    return loss;
  }

 private:
  static zoo::Net chosen(const Net& which) {
    const zoo::Net small = zoo::nets().small(which.name).net;
    return which.options.empty() ? small : zoo::with(small, which.options);
  }
  static std::shared_ptr<nn::Module> make(const zoo::Recipe& recipe, DType dtype, Norm norm) {
    manual_seed(7);
    auto net = recipe.make();
    net->to(dtype);
    nn::use_global_statistics(*net, norm == Norm::global);
    return net;
  }
};

CompileOptions over(int ranks) { return {.strategy = data_parallel({.workers = ranks, .threads_per_worker = 1})}; }

// |a - b| / |b| over all gradients together, and the loss.
double distance(const TensorList& a, const TensorList& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const auto x = a[i].to_vector(), y = b[i].to_vector();
    for (std::size_t k = 0; k < y.size(); ++k) {
      difference += (x[k] - y[k]) * (x[k] - y[k]);
      size += y[k] * y[k];
    }
  }
  return std::sqrt(difference / size);
}

double gradients_apart(const Net& net, int ranks, std::int64_t rows, DType dtype, Norm norm = Norm::global) {
  Step one(net, rows, dtype, Norm::local), many(net, rows, dtype, norm);
  CompiledFunction single([&](std::span<const Tensor> in) { return one.gradients_of(in); }, {});
  CompiledFunction parallel([&](std::span<const Tensor> in) { return many.gradients_of(in); }, over(ranks));
  return distance(parallel.call(many.fields()), single.call(one.fields()));
}

// The largest |difference| of the losses of twenty steps.
double losses_apart(const Net& net, int ranks, std::int64_t rows, Norm norm = Norm::global) {
  Step one(net, rows, DType::f32, Norm::local), many(net, rows, DType::f32, norm);
  CompiledFunction single([&](std::span<const Tensor> in) { return TensorList{one.step(in)}; }, {});
  CompiledFunction parallel([&](std::span<const Tensor> in) { return TensorList{many.step(in)}; }, over(ranks));
  double worst = 0;
  for (int i = 0; i < 20; ++i)
    worst = std::max(worst, std::abs(single.call(one.fields())[0].item() - parallel.call(many.fields())[0].item()));
  return worst;
}

class ParallelNet : public ::testing::TestWithParam<Net> {};

TEST_P(ParallelNet, HasTheGradientsOfOneRankInF32) { EXPECT_LE(gradients_apart(GetParam(), 2, 8, DType::f32), 1e-5); }

TEST_P(ParallelNet, HasTheGradientsOfOneRankInF64) { EXPECT_LE(gradients_apart(GetParam(), 2, 8, DType::f64), 1e-12); }

TEST_P(ParallelNet, WeighsUnevenRanksRight) {
  EXPECT_LE(gradients_apart(GetParam(), 3, 7, DType::f64), 1e-12);
  EXPECT_LE(gradients_apart(GetParam(), 3, 7, DType::f32), 1e-5);
}

TEST_P(ParallelNet, TakesRanksWithoutRows) {
  EXPECT_LE(gradients_apart(GetParam(), 4, 3, DType::f64), 1e-12);
  EXPECT_LE(gradients_apart(GetParam(), 4, 3, DType::f32), 1e-5);
}

TEST_P(ParallelNet, FollowsOneRankOverTwentySteps) { EXPECT_LE(losses_apart(GetParam(), 2, 6), 1e-3); }

INSTANTIATE_TEST_SUITE_P(Zoo, ParallelNet, ::testing::ValuesIn(kNets),
                         [](const auto& info) { return std::string(info.param.name); });

// The control: what holds with statistics of the whole batch does not with those of each rank's rows.
TEST(ParallelNet, WithLocalBatchNormIsAnotherNet) {
  EXPECT_GT(gradients_apart(kNets[2], 2, 8, DType::f64, Norm::local), 1e-3);
  EXPECT_GT(losses_apart(kNets[2], 2, 6, Norm::local), 1e-3);
}

TEST(ParallelNet, WithLocalBatchNormTakesRanksWithoutRows) {
  EXPECT_TRUE(std::isfinite(gradients_apart(kNets[2], 4, 3, DType::f64, Norm::local)));
}

}  // namespace
}  // namespace starling
