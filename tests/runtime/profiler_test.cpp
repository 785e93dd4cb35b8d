#include "starling/runtime/profile/profiler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

using testing::Bench;

// One training step of lenet, watched for some steps.
struct Watched {
  Bench bench{"lenet", 4, DType::f32};
  Profiler profiler;
  std::size_t instructions = 0;

  explicit Watched(int steps) {
    auto step = compile([this](const Tensor& x, const Tensor& y) { return bench.step(x, y); });
    step(bench.x, bench.y);
    step.set_profiler(&profiler);
    for (int i = 0; i < steps; ++i) step(bench.x, bench.y);
    instructions = profiler.programs().at(0)->instructions.size();
  }
};

TEST(Profiler, TraceIsJsonWithASliceAnInstructionThatTellsKernelScopeBytesAndFlops) {
  const Watched watched(2);  // the program is gone by now
  const auto trace = nlohmann::json::parse(watched.profiler.chrome_trace());
  std::size_t slices = 0, counters = 0, convolutions = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "C") ++counters;
    if (event.at("ph") != "X") continue;
    ++slices;
    EXPECT_TRUE(event.at("tid").is_number_integer());
    EXPECT_GE(event.at("dur").get<double>(), 0);
    const auto& args = event.at("args");
    for (const char* key : {"kernel", "lane", "scope", "device", "flops", "bytes"}) EXPECT_TRUE(args.contains(key));
    if (event.at("name") != "conv2d" || args.at("scope") != "conv2") continue;
    ++convolutions;
    EXPECT_EQ(args.at("flops").get<double>(), 4.0 * 50 * 8 * 8 * (2 * 20 * 5 * 5 + 1));
  }
  EXPECT_EQ(slices, 2 * watched.instructions);
  EXPECT_EQ(counters, slices);
  EXPECT_EQ(convolutions, 2U);
}

TEST(Profiler, TableSumsCallsTimeAndWorkByOpAndComparesWithThePeak) {
  const Watched watched(3);
  const auto totals = watched.profiler.totals();
  std::int64_t calls = 0;
  for (const auto& total : totals) calls += total.calls;
  EXPECT_EQ(calls, 3 * static_cast<std::int64_t>(watched.instructions));
  for (std::size_t i = 1; i < totals.size(); ++i) EXPECT_GE(totals[i - 1].milliseconds, totals[i].milliseconds);
  const std::string table = watched.profiler.table({.flops_per_s = 1e9, .bytes_per_s = 1e9});
  for (const char* word : {"conv2d", "calls", "share", "GFLOP/s", "GB/s", "of peak", "100.0 %", "peak 1.0 GFLOP/s"})
    EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
  EXPECT_EQ(watched.profiler.table().find("of peak"), std::string::npos);
}

TEST(Profiler, EventsThatDoNotFitAreCounted) {
  Bench bench("lenet", 2, DType::f32);
  Profiler profiler(3);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); });
  step.set_profiler(&profiler);
  step(bench.x, bench.y);
  EXPECT_EQ(profiler.events().size(), 3U);
  EXPECT_NE(profiler.table().find("events did not fit"), std::string::npos);
}

TEST(MemoryTimeline, KnowsWhatIsAliveAtThePeakAndNeverExceedsTheArena) {
  const Watched watched(1);
  const MemoryTimeline& memory = watched.profiler.programs().at(0)->memory;
  ASSERT_GE(memory.peak, 0);
  EXPECT_LE(memory.peak_bytes(), memory.arena_bytes);
  EXPECT_GT(memory.peak_bytes(), memory.arena_bytes / 2);
  EXPECT_EQ(memory.peak_bytes(), *std::max_element(memory.in_use.begin(), memory.in_use.end()));
  std::size_t alive = 0;
  for (const auto& value : memory.alive_at(memory.peak)) alive += value.bytes;
  EXPECT_EQ(alive, memory.peak_bytes());
  const std::string text = watched.profiler.memory();
  EXPECT_NE(text.find("values alive there"), std::string::npos) << text;
  EXPECT_NE(text.find("gradients/"), std::string::npos) << text;
}

TEST(MemoryTimeline, ChainOfUnaryOpsOfDifferentSizesHoldsTwoValuesAtATime) {
  auto f = compile([](const Tensor& x) {
    const Tensor wide = concat(std::vector<Tensor>{x, x});         // 2 n
    const Tensor wider = concat(std::vector<Tensor>{wide, wide});  // 4 n
    return sum(wider);
  });
  Profiler profiler;
  f.set_profiler(&profiler);
  f(full({256}, 1.0));
  const MemoryTimeline& memory = profiler.programs().at(0)->memory;
  EXPECT_EQ(memory.peak_bytes(), (2U + 4U) * 256 * sizeof(float));
}

TEST(Peak, IsMeasuredAndPositive) {
  const Peak peak = measure_peak(DType::f32, 1);
  EXPECT_GT(peak.flops_per_s, 1e6);
  EXPECT_GT(peak.bytes_per_s, 1e6);
}

}  // namespace
}  // namespace starling::runtime
