#include "starling/kernels/cpu/update/sgd.h"

#include <algorithm>
#include <type_traits>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/update/sgd.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/tail-inl.h"
#include "starling/ops/def/attrs/state.h"

#ifndef STARLING_KERNELS_CPU_SIMD_SGD_ONCE
#define STARLING_KERNELS_CPU_SIMD_SGD_ONCE
namespace starling::kernels {
template <class T>
struct SgdCoefficients {
  T lr, momentum, weight_decay;
  bool nesterov;
};
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

template <class D>
struct SgdStep {
  using V = hn::Vec<D>;
  V weight, velocity;
};

// One step. Momentum and Nesterov are template arguments, so that plain SGD neither reads nor writes a velocity.
template <bool Momentum, bool Nesterov, class D, class V>
HWY_INLINE SgdStep<D> step(D d, V w, V g, V v, const SgdCoefficients<hn::TFromD<D>>& k) {
  const V decayed = hn::MulAdd(hn::Set(d, k.weight_decay), w, g);
  if constexpr (!Momentum) return {hn::NegMulAdd(hn::Set(d, k.lr), decayed, w), v};
  const V mu = hn::Set(d, k.momentum);
  const V velocity = hn::MulAdd(mu, v, decayed);
  const V direction = Nesterov ? hn::MulAdd(mu, velocity, decayed) : velocity;
  return {hn::NegMulAdd(hn::Set(d, k.lr), direction, w), velocity};
}

template <bool Momentum, bool Nesterov, class T>
void update(T* w, const T* g, T* v, std::int64_t n, const SgdCoefficients<T>& k) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto old = Momentum ? hn::LoadU(d, v + i) : hn::Zero(d);
    const auto now = step<Momentum, Nesterov>(d, hn::LoadU(d, w + i), hn::LoadU(d, g + i), old, k);
    hn::StoreU(now.weight, d, w + i);
    if constexpr (Momentum) hn::StoreU(now.velocity, d, v + i);
  }
  if (i == n) return;
  const std::size_t rest = static_cast<std::size_t>(n - i);
  const auto old = Momentum ? load_tail(d, v + i, rest) : hn::Zero(d);
  const auto now = step<Momentum, Nesterov>(d, load_tail(d, w + i, rest), load_tail(d, g + i, rest), old, k);
  store_tail(d, now.weight, w + i, rest);
  if constexpr (Momentum) store_tail(d, now.velocity, v + i, rest);
}

template <class T>
void update_any(T* w, const T* g, T* v, std::int64_t n, const SgdCoefficients<T>& k) {
  if (v == nullptr) return update<false, false>(w, g, v, n, k);
  if (k.nesterov) return update<true, true>(w, g, v, n, k);
  update<true, false>(w, g, v, n, k);
}

void update_f32(float* w, const float* g, float* v, std::int64_t n, const SgdCoefficients<float>& k) {
  update_any(w, g, v, n, k);
}
void update_f64(double* w, const double* g, double* v, std::int64_t n, const SgdCoefficients<double>& k) {
  update_any(w, g, v, n, k);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

HWY_EXPORT(update_f32);
HWY_EXPORT(update_f64);

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kLineElements = 16;

// Splits all elements of all tensors into one piece per thread, at multiples of a cache line.
template <class T, class Update>
void update_all(std::span<const SgdTensor<T>> tensors, double lr, const SgdOptions& options, Update update) {
  const SgdCoefficients<T> k{static_cast<T>(lr), static_cast<T>(options.momentum), static_cast<T>(options.weight_decay),
                             options.nesterov};
  std::int64_t lines = 0;
  for (const SgdTensor<T>& t : tensors) {
    check(t.velocity != nullptr || options.momentum == 0, "[sgd] expected a velocity with momentum {}, got null",
          options.momentum);
    lines += (t.n + kLineElements - 1) / kLineElements;
  }
  parallel_for(lines, kGrain / kLineElements, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // first line of the tensor
    for (const SgdTensor<T>& t : tensors) {
      const std::int64_t last = first + (t.n + kLineElements - 1) / kLineElements;
      const std::int64_t from = (std::max(begin, first) - first) * kLineElements;
      const std::int64_t to = std::min((std::min(end, last) - first) * kLineElements, t.n);
      first = last;
      if (from >= to) continue;
      update(t.weight + from, t.gradient + from, t.velocity == nullptr ? nullptr : t.velocity + from, to - from, k);
    }
  });
}

}  // namespace

template <class T>
void sgd_update(std::span<const SgdTensor<T>> tensors, double lr, const SgdOptions& options) {
  if constexpr (std::is_same_v<T, float>) {
    update_all(tensors, lr, options, HWY_DYNAMIC_DISPATCH(update_f32));
  } else {
    update_all(tensors, lr, options, HWY_DYNAMIC_DISPATCH(update_f64));
  }
}

template void sgd_update(std::span<const SgdTensor<float>>, double, const SgdOptions&);
template void sgd_update(std::span<const SgdTensor<double>>, double, const SgdOptions&);

}  // namespace starling::kernels
#endif
