#include "starling/kernels/cpu/random/random.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"
#include "starling/kernels/uniform_bound.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/random/random.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/random/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

void uniforms(const PhiloxStream& stream, std::uint64_t first_block, std::int64_t count, float* out) {
  make_uniforms(stream, first_block, count, out);
}
void normals(const PhiloxStream& stream, std::uint64_t first_block, std::int64_t count, float* out) {
  make_normals(stream, first_block, count, out);
}

// shift + scale * number, at most `most`. scale and the numbers are floats, so their product is exact in double and the
// result is the same with and without FMA.
template <class T>
HWY_INLINE void affine(const float* numbers, T* out, std::int64_t n, double shift, double scale, T most) {
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = std::min(static_cast<T>(shift + scale * static_cast<double>(numbers[i])), most);
}

void affine_f32(const float* numbers, float* out, std::int64_t n, double shift, double scale, float most) {
  affine(numbers, out, n, shift, scale, most);
}
void affine_f64(const float* numbers, double* out, std::int64_t n, double shift, double scale, double most) {
  affine(numbers, out, n, shift, scale, most);
}

template <class T>
HWY_INLINE void drop(const float* numbers, const T* x, T* y, std::int64_t n, float keep, T scale) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = numbers[i] < keep ? x[i] * scale : T{0};
}

void drop_f32(const float* numbers, const float* x, float* y, std::int64_t n, float keep, float scale) {
  drop(numbers, x, y, n, keep, scale);
}
void drop_f64(const float* numbers, const double* x, double* y, std::int64_t n, float keep, double scale) {
  drop(numbers, x, y, n, keep, scale);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

HWY_EXPORT(uniforms);
HWY_EXPORT(normals);
HWY_EXPORT(affine_f32);
HWY_EXPORT(affine_f64);
HWY_EXPORT(drop_f32);
HWY_EXPORT(drop_f64);

using MakeNumbers = void (*)(const PhiloxStream&, std::uint64_t first_block, std::int64_t count, float* out);
constexpr std::int64_t kGrain = 4096;

// Calls use(numbers, begin, count) for consecutive parts of [0, n), numbers[i] being that of global index base + begin
// + i.
template <class Use>
void for_numbers(MakeNumbers make, const PhiloxKey& key, std::int64_t n, std::int64_t base, const Use& use) {
  check(base >= 0, "[random] expected a global index of 0 or more, got {}", base);
  const PhiloxStream stream(key);
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) float numbers[kRandomChunk];
    while (begin < end) {
      const std::int64_t skip = (base + begin) % 4;  // numbers come in blocks of four
      const std::int64_t count = std::min(end - begin, kRandomChunk - skip);
      make(stream, static_cast<std::uint64_t>(base + begin) / 4, skip + count, numbers);
      use(numbers + skip, begin, count);
      begin += count;
    }
  });
}

template <class T>
void fill_affine(MakeNumbers make, T* out, std::int64_t n, const PhiloxKey& key, std::int64_t base, double shift,
                 double scale, T most = std::numeric_limits<T>::infinity()) {
  for_numbers(make, key, n, base, [&](const float* numbers, std::int64_t at, std::int64_t count) {
    if constexpr (sizeof(T) == sizeof(float)) {
      HWY_DYNAMIC_DISPATCH(affine_f32)(numbers, out + at, count, shift, scale, most);
    } else {
      HWY_DYNAMIC_DISPATCH(affine_f64)(numbers, out + at, count, shift, scale, most);
    }
  });
}

double as_float(double x) { return static_cast<double>(static_cast<float>(x)); }

}  // namespace

template <class T>
void fill_uniform(T* out, std::int64_t n, const PhiloxKey& key, std::int64_t base, double low, double high) {
  fill_affine(HWY_DYNAMIC_DISPATCH(uniforms), out, n, key, base, low, as_float(high - low),
              static_cast<T>(largest_below(std::is_same_v<T, float> ? DType::f32 : DType::f64, low, high)));
}

template <class T>
void fill_normal(T* out, std::int64_t n, const PhiloxKey& key, std::int64_t base, double mean, double stddev) {
  fill_affine(HWY_DYNAMIC_DISPATCH(normals), out, n, key, base, mean, as_float(stddev));
}

template <class T>
void dropout(const T* x, T* y, std::int64_t n, const PhiloxKey& key, std::int64_t base, double keep) {
  check(keep >= 0 && keep <= 1, "[dropout] expected a keep probability in [0, 1], got {}", keep);
  const T scale = keep > 0 ? static_cast<T>(1 / keep) : T{0};
  const auto limit = static_cast<float>(keep);
  for_numbers(HWY_DYNAMIC_DISPATCH(uniforms), key, n, base,
              [&](const float* numbers, std::int64_t at, std::int64_t count) {
                if constexpr (sizeof(T) == sizeof(float)) {
                  HWY_DYNAMIC_DISPATCH(drop_f32)(numbers, x + at, y + at, count, limit, scale);
                } else {
                  HWY_DYNAMIC_DISPATCH(drop_f64)(numbers, x + at, y + at, count, limit, scale);
                }
              });
}

template void fill_uniform(float*, std::int64_t, const PhiloxKey&, std::int64_t, double, double);
template void fill_uniform(double*, std::int64_t, const PhiloxKey&, std::int64_t, double, double);
template void fill_normal(float*, std::int64_t, const PhiloxKey&, std::int64_t, double, double);
template void fill_normal(double*, std::int64_t, const PhiloxKey&, std::int64_t, double, double);
template void dropout(const float*, float*, std::int64_t, const PhiloxKey&, std::int64_t, double);
template void dropout(const double*, double*, std::int64_t, const PhiloxKey&, std::int64_t, double);

}  // namespace starling::kernels
#endif
