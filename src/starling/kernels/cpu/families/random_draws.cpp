#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/random/random.h"
#include "starling/kernels/cpu/random/random_runs.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/random.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 4096;

template <class T>
const T* probabilities(const Launch& l) {
  return static_cast<const T*>(l.in[1]);
}

// Bernoulli draws y = u < p, with u drawn a few hundred at a time.
template <class T, class P>
void draw_run(T* y, std::int64_t n, const PhiloxKey& key, std::int64_t base, const P& p) {
  constexpr std::int64_t kChunk = 256;
  float u[kChunk];
  for (std::int64_t at = 0; at < n; at += kChunk) {
    const std::int64_t count = std::min(kChunk, n - at);
    fill_uniform(u, count, key, base + at);
    for (std::int64_t i = 0; i < count; ++i) y[at + i] = static_cast<T>(static_cast<double>(u[i]) < p(at + i));
  }
}

// Bernoulli plan; probability(i) is that of element i.
template <class T, class Probability>
std::unique_ptr<Plan> make_bernoulli(const op::BernoulliAttrs& a, Probability probability) {
  return make_plan([runs = RandomRuns(a.shape, a.global, a.offset), site = a.site, probability](const Launch& l) {
    const PhiloxKey key = key_of(l.in[0], site);
    runs.each([&](std::int64_t at, std::int64_t whole) {
      parallel_for(runs.length, kGrain, [&](std::int64_t first, std::int64_t end) {
        draw_run(static_cast<T*>(l.out[0]) + at + first, end - first, key, whole + first,
                 [&](std::int64_t i) { return probability(l, at + first + i); });
      });
    });
  });
}

template <class P>
double checked(const Launch& l, std::int64_t i) {
  const auto p = static_cast<double>(probabilities<P>(l)[i]);
  if (!(p >= 0 && p <= 1)) [[unlikely]]
    fail("[bernoulli] expected probabilities in [0, 1], got {} at {}", p, i);
  return p;
}

template <class T>
std::unique_ptr<Plan> bernoulli_of(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::BernoulliAttrs>();
  if (r.in.size() < 2) return make_bernoulli<T>(a, [p = a.p](const Launch&, std::int64_t) { return p; });
  if (r.in[1].dtype == DType::f32) return make_bernoulli<T>(a, checked<float>);
  if (r.in[1].dtype == DType::f64) return make_bernoulli<T>(a, checked<double>);
  return nullptr;
}

std::unique_ptr<Plan> plan_bernoulli(const PlanRequest& r) {
  switch (r.out[0].dtype) {
    case DType::f32: return bernoulli_of<float>(r);
    case DType::f64: return bernoulli_of<double>(r);
    case DType::boolean: return bernoulli_of<bool>(r);
    case DType::i64: return bernoulli_of<std::int64_t>(r);
    default: return nullptr;
  }
}

template <class T>
std::unique_ptr<Plan> randint_of(const PlanRequest& r) {
  const auto a = r.attrs.as<op::RandintAttrs>();
  const auto total = static_cast<std::uint64_t>((a.global.empty() ? a.shape : a.global).numel());
  const std::uint64_t bound = static_cast<std::uint64_t>(a.high) - static_cast<std::uint64_t>(a.low);
  return make_plan([=, runs = RandomRuns(a.shape, a.global, a.offset)](const Launch& l) {
    const PhiloxStream stream(key_of(l.in[0], a.site));
    runs.each([&](std::int64_t at, std::int64_t whole) {
      auto* y = static_cast<T*>(l.out[0]) + at;
      parallel_for(runs.length, kGrain, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t i = first; i < end; ++i) {
          const auto drawn = philox_below(stream, static_cast<std::uint64_t>(whole + i), total, bound);
          y[i] = static_cast<T>(static_cast<std::uint64_t>(a.low) + drawn);
        }
      });
    });
  });
}

std::unique_ptr<Plan> plan_randint(const PlanRequest& r) {
  switch (r.out[0].dtype) {
    case DType::i64: return randint_of<std::int64_t>(r);
    case DType::i32: return randint_of<std::int32_t>(r);
    case DType::u8: return randint_of<std::uint8_t>(r);
    default: return nullptr;
  }
}

}  // namespace

void register_cpu_random_draws(KernelTable& table) {
  table.add("bernoulli", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_bernoulli});
  table.add("randint", DeviceKind::cpu, {"threads", Accepts::contiguous, plan_randint});
}

}  // namespace starling::kernels
