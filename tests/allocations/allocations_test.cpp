#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "data/stream_testing.h"
#include "dist/transport_worlds.h"
#include "runtime/step_testing.h"
#include "starling/data/loading/loader.h"
#include "starling/runtime/placed/placed.h"

// Counts every allocation by operator new, which is replaced here; direct calls of malloc belong to libraries. Not
// built with sanitizers, which bring their own malloc.

namespace {

std::atomic<long> news{0};
std::atomic<long> mallocs{0};

}  // namespace

extern "C" void* __libc_malloc(std::size_t size);  // NOLINT: glibc's own entry, to be able to stand before it
extern "C" void* malloc(std::size_t size) {
  mallocs.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}

// new and delete are both replaced here, so they match; the compiler sees only one of them at a time.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t size) {
  news.fetch_add(1, std::memory_order_relaxed);
  void* data = std::malloc(size ? size : 1);
  if (!data) throw std::bad_alloc();
  return data;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace starling {
namespace {

using testing::Bench;

struct Counts {
  long ours;
  long libraries;
};

template <class Step>
Counts count(Step&& step, int times) {
  const long news_before = news, mallocs_before = mallocs;
  for (int i = 0; i < times; ++i) step();
  return {news - news_before, (mallocs - mallocs_before) - (news - news_before)};
}

class Allocations : public ::testing::TestWithParam<const char*> {};

TEST_P(Allocations, ACompiledStepMakesNoneOfOursAfterTheFirst) {
  Bench bench(GetParam(), 8, DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); });
  const auto run = [&] { step(bench.x, bench.y); };
  count(run, 3);
  const Counts first = count(run, 500), second = count(run, 500);
  EXPECT_EQ(first.ours, 0);
  EXPECT_EQ(second.ours, 0);
  EXPECT_EQ(first.libraries, second.libraries) << "library allocations must stay flat";
  RecordProperty("library_allocations_per_500_steps", static_cast<int>(second.libraries));
}

INSTANTIATE_TEST_SUITE_P(Zoo, Allocations, ::testing::Values("mlp", "sae_small", "lenet"));

TEST(Allocations, UpdatesThatAreScaledClippedSkippedAndAveragedMakeNoneOfOurs) {
  Bench bench("mlp", 8, DType::f32);
  optim::Lamb opt(bench.net.parameters());
  optim::LossScaler scaler;
  optim::Ema ema(bench.net.parameters());
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    scaler.scale(cross_entropy(bench.net(x), y)).backward();
    const Tensor skip = scaler.unscale(opt.parameters());
    optim::clip_gradient_norm(opt.parameters(), 1);
    opt.step(skip);
    scaler.update(skip);
    ema.update();
  });
  const auto run = [&] { step(bench.x, bench.y); };
  count(run, 3);
  EXPECT_EQ(count(run, 200).ours, 0);
}

TEST(Allocations, ADataParallelStepMakesNoneOfOursEither) {
  Bench bench("mlp", 8, DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); },
                      {.strategy = data_parallel({.workers = 2})});
  const auto run = [&] { step(bench.x, bench.y); };
  count(run, 100);  // until every slot of the ring of collectives has been used
  EXPECT_EQ(count(run, 200).ours, 0);
}

// A training step through a scan with a cond and a bounded while inside, their gradients included.
TEST(Allocations, ControlFlowOfStaticLengthMakesNoneOfOurs) {
  Tensor w = full({16, 16}, 0.1);
  w.set_requires_grad();
  w.set_name("w");
  optim::Sgd opt({w}, {.lr = 0.01});
  auto step = compile([&](const Tensor& h, const Tensor& x) {
    const auto cell = [&](const TensorList& c, const TensorList& slice) {
      const TensorList s =
          while_loop([](const TensorList& state) { return sum(state[0]) < 8; },
                     [&](const TensorList& state) { return TensorList{matmul(state[0], w) + slice[0] + 0.5}; }, c,
                     {.max_trips = 50});
      return std::pair{cond(
                           sum(s[0]) > 20, [&] { return TensorList{s[0] * 0.1}; }, [&] { return s; }),
                       TensorList{}};
    };
    const Tensor loss = mean(square(scan(cell, {h}, {x}).first[0]));
    loss.backward();
    opt.step();
    return loss;
  });
  const Tensor h = zeros({4, 16}), x = full({6, 4, 16}, 0.1);
  const auto run = [&] { step(h, x); };
  count(run, 3);
  EXPECT_EQ(count(run, 50).ours, 0);
}

TEST(Allocations, AStepPlacedOverTwoDevicesMakesNoneOfOursEither) {
  Bench bench("mlp", 8, DType::f32);
  const Device other{DeviceKind::cpu, 1};
  graph::PlacementOptions options{.devices = {{.device = kCpu, .threads = 1}, {.device = other, .threads = 1}}};
  options.constraints = {{"var:" + bench.net.parameters()[0].name(), other}};
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); },
                      {.threads = 1, .strategy = placed(options)});
  const auto run = [&] { step(bench.x, bench.y); };
  count(run, 20);
  EXPECT_EQ(count(run, 200).ours, 0);
}

class Shift final : public Transform {
 public:
  std::vector<TensorType> fields(std::vector<TensorType> in) const override { return in; }
  void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey& key) const override {
    for (int i = 0; i < 64; ++i) out[0].as<float>()[i] = in[0].as<float>()[i] + static_cast<float>(key.sample);
  }
};

TEST(Allocations, ALoaderMakesNonePerBatchOnceWarm) {
  for (const int workers : {1, 3}) {
    Loader loader(std::make_shared<TensorDataset>(std::vector<Tensor>{zeros({1000, 64})}),
                  {.batch = 32,
                   .seed = 1,
                   .workers = workers,
                   .transforms = {std::make_shared<Shift>(), std::make_shared<Shift>()}});
    const auto run = [&] { loader.next(); };
    count(run, 200);
    const Counts made = count(run, 500);  // 15 epochs including their smaller last batches
    EXPECT_EQ(made.ours, 0) << workers;
    EXPECT_EQ(made.libraries, 0) << workers;
  }
}

TEST(Allocations, AStreamMakesNonePerBatchOnceWarm) {
  const testing::Folder folder;
  data::RecordShards shards = testing::number_shards(folder.path(), {});
  for (int s = 0; s < 2; ++s) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) testing::append_number(text, i, 40);
    shards.files.push_back(folder.path() / std::to_string(s));
    testing::write_text(shards.files.back(), text);
  }
  Loader loader(shards, {.shuffle_samples = 500, .interleave = 2}, {.batch = 32, .seed = 1, .workers = 2});
  const auto run = [&] { loader.next(); };
  count(run, 300);
  // The number of records in flight depends on timing: memory is allocated whenever it reaches a new maximum.
  long total = 0, least = 1;
  for (int i = 0; i < 9; ++i) {
    const Counts made = count(run, 100);
    total += made.ours + made.libraries;
    least = std::min(least, made.ours + made.libraries);
  }
  EXPECT_EQ(least, 0);
  EXPECT_LE(total, 3 * 34);  // of 28 800 records in 900 batches
}

// Schedules are cached, scratch memory is kept, operation slots are reused.
TEST(Allocations, CollectivesOverATransportMakeNoneOnceWarm) {
  long made = -1;
  run_ranks(dist::make_memory_comms(3), [&](Comm& comm) {
    std::vector<float> data(3'000), all(9'000), small(10);
    const auto step = [&] {
      const Work first = comm.all_reduce(data.data(), data.data(), 3'000, DType::f32, ReduceOp::mean);
      comm.all_reduce(small.data(), small.data(), 10, DType::f32, ReduceOp::max).wait();
      first.wait();
      comm.all_gather(data.data(), all.data(), 3'000, DType::f32).wait();
      comm.reduce_scatter(all.data(), data.data(), 3'000, DType::f32, ReduceOp::sum).wait();
      comm.broadcast(data.data(), 3'000, DType::f32, 1).wait();
      if (comm.rank() == 0) comm.send(small.data(), 10, DType::f32, 1).wait();
      if (comm.rank() == 1) comm.recv(small.data(), 10, DType::f32, 0).wait();
    };
    for (int i = 0; i < 70; ++i) step();
    comm.barrier().wait();
    const long before = news;
    comm.barrier().wait();
    for (int i = 0; i < 100; ++i) step();
    comm.barrier().wait();
    if (comm.rank() == 0) made = news - before;
    comm.barrier().wait();
  });
  EXPECT_EQ(made, 0);
}

TEST(Allocations, TheCountersCount) {
  const auto allocate = [] {
    int* made = new int(3);
    asm volatile("" : : "r"(made) : "memory");  // keeps the compiler from eliding the pair
    delete made;
    void* raw = std::malloc(8);
    asm volatile("" : : "r"(raw) : "memory");
    std::free(raw);
  };
  const Counts made = count(allocate, 5);
  EXPECT_EQ(made.ours, 5);
  EXPECT_EQ(made.libraries, 5);
}

}  // namespace
}  // namespace starling
