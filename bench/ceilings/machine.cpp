#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "starling/base/parallel.h"

#define HWY_DISABLED_TARGETS (HWY_AVX3_DL | HWY_SSSE3)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../bench/ceilings/machine.cpp"  // from the include root, src/
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling::ceilings::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kChains = 12;  // enough independent sums to hide the latency of two units, few enough for 16 registers

// Runs rounds × kChains fused multiply-adds on sums that begin differently (equal ones the compiler would compute
// once); returns the floating-point operations done. Writes the end of every sum to `sums`, to keep them alive.
double multiply_add(std::int64_t rounds, float* HWY_RESTRICT sums) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 1e-3f);
  const auto start = [&](int chain) { return hn::LoadU(d, sums + chain); };
  auto a0 = start(0), a1 = start(1), a2 = start(2), a3 = start(3), a4 = start(4), a5 = start(5);
  auto a6 = start(6), a7 = start(7), a8 = start(8), a9 = start(9), a10 = start(10), a11 = start(11);
  for (std::int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, term), a1 = hn::MulAdd(a1, factor, term), a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term), a4 = hn::MulAdd(a4, factor, term), a5 = hn::MulAdd(a5, factor, term);
    a6 = hn::MulAdd(a6, factor, term), a7 = hn::MulAdd(a7, factor, term), a8 = hn::MulAdd(a8, factor, term);
    a9 = hn::MulAdd(a9, factor, term), a10 = hn::MulAdd(a10, factor, term), a11 = hn::MulAdd(a11, factor, term);
  }
  const auto all = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(a6, a7)));
  hn::StoreU(hn::Add(all, hn::Add(hn::Add(a8, a9), hn::Add(a10, a11))), d, sums);
  return 2.0 * kChains * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace starling::ceilings::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::ceilings {
namespace {

HWY_EXPORT(multiply_add);
HWY_EXPORT(target_name);

// The best of half a second of runs of body on every thread at once, in seconds.
template <class Body>
double fastest(int threads, Body&& body) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  const double end = now() + 0.5;
  double best = 1e30;
  while (now() < end) {
    const double start = now();
    parallel_run(threads, body);
    best = std::min(best, now() - start);
  }
  return best;
}

}  // namespace

double peak_gflops(int threads) {
  constexpr std::int64_t kRounds = 200'000;
  constexpr std::size_t kSums =
      128;  // room for every chain of the widest vector, and threads keep off each other's lines
  std::vector<float> sums(static_cast<std::size_t>(threads) * kSums);
  std::iota(sums.begin(), sums.end(), 1.0f);
  std::vector<double> done(static_cast<std::size_t>(threads));
  const double seconds = fastest(threads, [&](int thread) {
    const auto t = static_cast<std::size_t>(thread);
    done[t] = HWY_DYNAMIC_DISPATCH(multiply_add)(kRounds, sums.data() + t * kSums);
  });
  return done[0] * threads / seconds * 1e-9;
}

double triad_gbs(int threads) {
  const std::size_t count = std::size_t{1} << 24;
  std::vector<float> a(count), b(count, 1.0f), c(count, 2.0f);
  const double seconds = fastest(threads, [&](int thread) {
    const std::size_t piece = count / static_cast<std::size_t>(threads),
                      begin = piece * static_cast<std::size_t>(thread);
    float* to = a.data();
    const float *x = b.data(), *y = c.data();
    for (std::size_t i = begin; i < begin + piece; ++i) to[i] = x[i] + 3.0f * y[i];
  });
  return 3.0 * sizeof(float) * static_cast<double>(count) / seconds * 1e-9;
}

const char* vector_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace starling::ceilings
#endif
