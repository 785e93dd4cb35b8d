// Programs with buckets against the same with one exchange per gradient.
#include <gtest/gtest.h>

#include "runtime/step_testing.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/optim/clip.h"

namespace starling::dist {
namespace {

using testing::Bench;

struct Trained {
  std::vector<std::vector<double>> weights;
  std::vector<double> losses;
  int exchanges = 0;  // communication nodes of the program
};

using StepFn = std::function<TensorList(Bench&, std::span<const Tensor>)>;

TensorList plain_step(Bench& bench, std::span<const Tensor> in) { return {bench.step(in[0], in[1])}; }

Trained train(const DataParallelOptions& ranks, CompileOptions options, const StepFn& fn = plain_step,
              DType dtype = DType::f32) {
  Bench bench("lenet", 12, dtype);
  options.strategy = data_parallel(ranks);
  CompiledFunction step([&](std::span<const Tensor> in) { return fn(bench, in); }, options);
  Trained trained;
  const Tensor in[] = {bench.x, bench.y};
  for (int i = 0; i < 3; ++i) trained.losses.push_back(step.call(in)[0].item());
  for (const auto& p : bench.net.parameters()) trained.weights.push_back(p.to_vector());
  for (const auto& node : step.graph().nodes()) trained.exchanges += node.op->comm ? 1 : 0;
  return trained;
}

void expect_same_bits(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.weights, b.weights);
}

TEST(Buckets, GiveTheBitsOfSeparateReductions) {
  for (const int workers : {2, 3}) {
    const Trained joined = train({.workers = workers}, {.disable = {"shared_updates"}});
    const Trained separate = train({.workers = workers}, {.disable = {"buckets", "shared_updates"}});
    expect_same_bits(joined, separate);
    EXPECT_EQ(joined.exchanges, 2) << "the loss and the first megabyte of gradients, then the rest";
    EXPECT_EQ(separate.exchanges, 8 + 1);
  }
}

TEST(Buckets, OfAnySizeGiveTheSameBits) {
  const Trained one = train({.workers = 2}, {});
  const Trained several = train({.workers = 2}, {.bucket_bytes = 4000, .first_bucket_bytes = 100});
  expect_same_bits(one, several);
  EXPECT_GT(several.exchanges, 2);
  EXPECT_LT(several.exchanges, 9);
}

TEST(Buckets, OfLogicalShardsGiveTheSameBits) {
  const DataParallelOptions ranks{.workers = 2, .deterministic = true, .shards = 4};
  const Trained joined = train(ranks, {}), separate = train(ranks, {.disable = {"buckets"}});
  expect_same_bits(joined, separate);
  EXPECT_LT(joined.exchanges, separate.exchanges);
  expect_same_bits(joined, train({.workers = 1, .deterministic = true, .shards = 4}, {}));
}

TEST(Buckets, LetTheGlobalNormBeClipped) {
  const StepFn clipped = [](Bench& bench, std::span<const Tensor> in) {
    Tensor loss = cross_entropy(bench.net(in[0]), in[1]);
    loss.backward();
    optim::clip_gradient_norm(bench.net.parameters(), 0.01);
    bench.opt.step();
    return TensorList{loss};
  };
  const Trained joined = train({.workers = 2}, {.bucket_bytes = 4000, .first_bucket_bytes = 100}, clipped, DType::f64);
  expect_same_bits(joined, train({.workers = 2}, {.disable = {"buckets"}}, clipped, DType::f64));
  const Trained alone = train({.workers = 1}, {}, clipped, DType::f64);
  for (std::size_t i = 0; i < alone.losses.size(); ++i) EXPECT_NEAR(joined.losses[i], alone.losses[i], 1e-12);
}

// Layers of several dtypes in one step.
TEST(Buckets, KeepDtypesApart) {
  const auto run = [](CompileOptions options) {
    manual_seed(5);
    std::vector<Tensor> weights;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64, DType::f32, DType::bf16}) {
      weights.push_back(cast(normal({6, 6}, {.stddev = 0.3}), dtype));
      weights.back().set_name("w" + std::to_string(weights.size())).set_requires_grad();
    }
    const Tensor x = normal({5, 6});
    options.strategy = data_parallel({.workers = 2});
    CompiledFunction f(
        [&](std::span<const Tensor> in) {
          Tensor h = in[0];
          for (const auto& w : weights) h = tanh(matmul(cast(h, w.dtype()), w));
          const Tensor loss = sum(cast(h, DType::f32));
          return gradients({&loss, 1}, weights);
        },
        options);
    std::vector<std::vector<double>> all;
    for (const auto& g : f.call({&x, 1})) all.push_back(g.to_vector());
    int exchanges = 0;
    for (const auto& node : f.graph().nodes()) exchanges += node.op->comm ? 1 : 0;
    return std::pair(all, exchanges);
  };
  const auto joined = run({}), separate = run({.disable = {"buckets"}});
  EXPECT_EQ(joined.first, separate.first);
  EXPECT_EQ(joined.second, 4);
  EXPECT_EQ(separate.second, 6);
}

}  // namespace
}  // namespace starling::dist
