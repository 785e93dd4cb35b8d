// Products of the small networks, ours against oneDNN's sgemm, in GFLOP/s on one and on all threads.
// "+ sgd" is the weight gradient with the momentum update fused in, against oneDNN's product alone.
//   bench_gemm [part of a layer's name]
#include "starling/kernels/cpu/gemm/gemm.h"

#include <dnnl.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "starling/base/parallel.h"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerRound = 2e-3;
constexpr int kRounds = 15;

struct Layer {
  std::string name;
  std::int64_t batch, in, out;
};

const std::vector<Layer> kLayers = {
    {"mlp.0", 64, 784, 512},       {"mlp.1", 64, 512, 512},         {"mlp.2", 64, 512, 10},
    {"sae_small.0", 64, 784, 400}, {"sae_small.1", 64, 400, 200},   {"sae_small.2", 64, 200, 100},
    {"sae_small.3", 64, 100, 10},  {"sae_big.0", 64, 784, 800},     {"sae_big.1", 64, 800, 1000},
    {"sae_big.2", 64, 1000, 2000}, {"sae_big.3", 64, 2000, 10},     {"lenet.fc1", 64, 800, 500},
    {"lenet.fc2", 64, 500, 10},    {"alexnet.fc1", 64, 9216, 4096}, {"gpt.qkv", 2048, 384, 1152},
    {"gpt.mlp", 2048, 1536, 384},  {"square 512", 512, 512, 512},   {"square 64", 64, 64, 64},
    {"square 8", 8, 8, 8}};

struct alignas(64) Line {
  float values[16];
};

class Buffer {
 public:
  explicit Buffer(std::int64_t count) : lines_(static_cast<std::size_t>(count) / 16 + 2) {
    for (std::int64_t i = 0; i < count; ++i) data()[i] = static_cast<float>(i % 17) / 17 - 0.5F;
  }
  float* data() { return lines_[0].values; }

 private:
  std::vector<Line> lines_;
};

template <class F>
double seconds_per_call(std::int64_t calls, const F& f) {
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) f();
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(calls);
}

// The best of interleaved rounds: whatever else the machine does hits both alike.
template <class F, class G>
std::array<double, 2> compare(const F& ours, const G& theirs) {
  const auto calls_of = [](const auto& f) {
    f();
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(kSecondsPerRound / seconds_per_call(3, f)));
  };
  const std::int64_t our_calls = calls_of(ours);
  const std::int64_t their_calls = calls_of(theirs);
  std::array<double, 2> best = {1e9, 1e9};
  for (int round = 0; round < kRounds; ++round) {
    best[0] = std::min(best[0], seconds_per_call(our_calls, ours));
    best[1] = std::min(best[1], seconds_per_call(their_calls, theirs));
  }
  return best;
}

void row(const std::string& name, const char* pass, const kernels::GemmShape& s, int threads, bool update = false) {
  Buffer a(s.m * s.k);
  Buffer b(s.k * s.n);
  Buffer c(s.m * s.n);
  const kernels::GemmPlan plan = plan_gemm(s, threads);
  Buffer scratch(static_cast<std::int64_t>(gemm_scratch_bytes(plan) / sizeof(float)));
  Buffer velocity(update ? s.m * s.n : 0);
  const float rate = 1e-6F;
  const kernels::GemmSgd sgd{
      .weights = c.data(), .velocity = velocity.data(), .learning_rate = &rate, .momentum = 0.9F};
  const kernels::GemmEpilogue epilogue{.sgd = update ? &sgd : nullptr};
  const ThreadScope scope(threads);
  const auto [ours, theirs] =
      compare([&] { gemm(plan, a.data(), b.data(), c.data(), epilogue, scratch.data()); },
              [&] {
                dnnl_sgemm(s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F, a.data(),
                           s.trans_a ? s.m : s.k, b.data(), s.trans_b ? s.k : s.n, 0.0F, c.data(), s.n);
              });
  const double flops = 2e-9 * static_cast<double>(s.m * s.n * s.k);
  fmt::print("{:<12} {:<8} {:>5} x {:>5} x {:>5} {}{} {} {:>10.2f} us {:>8.1f} {:>8.1f} GFLOP/s {:>6.2f}x\n", name,
             pass, s.m, s.n, s.k, s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', threads, ours * 1e6, flops / ours,
             flops / theirs, theirs / ours);
}

}  // namespace

int main(int argc, char** argv) {
  fmt::print("{:<12} {:<8} {:>5} x {:>5} x {:>5} form threads  ours: time, speed; oneDNN: speed; ratio\n", "layer",
             "pass", "m", "n", "k");
  for (int threads : {1, num_threads()}) {
    for (const auto& [name, batch, in, out] : kLayers) {
      if (argc > 1 && name.find(argv[1]) == std::string::npos) continue;
      row(name, "forward", {.m = batch, .n = out, .k = in, .trans_b = true}, threads);
      row(name, "data", {.m = batch, .n = in, .k = out}, threads);
      row(name, "weight", {.m = out, .n = in, .k = batch, .trans_a = true}, threads);
      row(name, "+ sgd", {.m = out, .n = in, .k = batch, .trans_a = true}, threads, true);
    }
    if (num_threads() == 1) break;
  }
}
