#include "starling/dist/strategy/uneven/racy_update.h"

#include <atomic>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

// Intended data races, hidden from thread sanitizers. Elements are aligned words, so that loads and stores are whole:
// an update may be lost, but no value is torn.
template <class T>
[[gnu::no_sanitize_thread]] std::int64_t racy(const RacySgd& how, std::int64_t count, T* w, T* v, const T* g) {
  const auto lr = static_cast<T>(how.lr), momentum = static_cast<T>(how.momentum);
  const auto decay = static_cast<T>(how.weight_decay);
  const bool sparse = v == nullptr && how.weight_decay == 0;
  std::int64_t written = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (sparse && g[i] == 0) continue;
    const T loaded = w[i];
    const T gradient = g[i] + decay * loaded;
    T step = gradient;
    if (v != nullptr) {
      const T velocity = momentum * v[i] + gradient;
      v[i] = velocity;
      step = how.nesterov ? gradient + momentum * velocity : velocity;
    }
    if (how.probe.between != nullptr) [[unlikely]]
      how.probe.between(how.probe.context);
    w[i] = loaded - lr * step;
    ++written;
  }
  return written;
}

// Same without lost updates: a failed compare-and-swap retries with the new value.
template <class T>
std::int64_t atomically(const RacySgd& how, std::int64_t count, T* w, T* v, const T* g) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const auto lr = static_cast<T>(how.lr), momentum = static_cast<T>(how.momentum);
  const auto decay = static_cast<T>(how.weight_decay);
  const bool sparse = v == nullptr && how.weight_decay == 0;
  std::int64_t written = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (sparse && g[i] == 0) continue;
    const std::atomic_ref<T> weight(w[i]);
    T loaded = weight.load(kRelaxed);
    const T gradient = g[i] + decay * loaded;
    T step = gradient;
    if (v != nullptr) {
      const std::atomic_ref<T> slot(v[i]);
      T before = slot.load(kRelaxed);
      while (!slot.compare_exchange_weak(before, momentum * before + gradient, kRelaxed)) {
      }
      const T velocity = momentum * before + gradient;
      step = how.nesterov ? gradient + momentum * velocity : velocity;
    }
    if (how.probe.between != nullptr) [[unlikely]]
      how.probe.between(how.probe.context);
    while (!weight.compare_exchange_weak(loaded, loaded - lr * step, kRelaxed)) {
    }
    ++written;
  }
  return written;
}

template <class T>
std::int64_t run(const RacySgd& how, std::int64_t count, void* w, void* v, const void* g) {
  auto* weights = static_cast<T*>(w);
  auto* velocity = static_cast<T*>(how.momentum == 0 ? nullptr : v);
  const auto* gradient = static_cast<const T*>(g);
  return how.atomic ? atomically(how, count, weights, velocity, gradient)
                    : racy(how, count, weights, velocity, gradient);
}

}  // namespace

std::int64_t racy_sgd(const RacySgd& how, DType dtype, std::int64_t count, void* w, void* v, const void* g) {
  switch (dtype) {
    case DType::f32: return run<float>(how, count, w, v, g);
    case DType::f64: return run<double>(how, count, w, v, g);
    default: fail("[hogwild] expected weights of f32 or f64, got {}", name(dtype));
  }
}

}  // namespace starling::dist
