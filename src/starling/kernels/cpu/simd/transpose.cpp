#include "starling/kernels/cpu/simd/transpose.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/simd/transpose.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Transpose of Side x Side elements in registers: 128-bit vectors, whose interleaving is cheap everywhere.
template <class T>
struct Square {
  static constexpr std::int64_t kSide = 1;
  static HWY_INLINE void run(const T* s, std::int64_t, T* t, std::int64_t) { *t = *s; }
};

#if HWY_TARGET != HWY_SCALAR
template <>
struct Square<std::uint32_t> {
  static constexpr std::int64_t kSide = 4;
  static HWY_INLINE void run(const std::uint32_t* s, std::int64_t ss, std::uint32_t* t, std::int64_t ts) {
    const hn::FixedTag<std::uint32_t, 4> d;
    const hn::FixedTag<std::uint64_t, 2> dw;
    const auto r0 = hn::LoadU(d, s), r1 = hn::LoadU(d, s + ss), r2 = hn::LoadU(d, s + 2 * ss),
               r3 = hn::LoadU(d, s + 3 * ss);
    const auto a = hn::BitCast(dw, hn::InterleaveLower(d, r0, r1)), b = hn::BitCast(dw, hn::InterleaveLower(d, r2, r3));
    const auto e = hn::BitCast(dw, hn::InterleaveUpper(d, r0, r1)), f = hn::BitCast(dw, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, a, b)), d, t);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, a, b)), d, t + ts);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, e, f)), d, t + 2 * ts);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, e, f)), d, t + 3 * ts);
  }
};

template <>
struct Square<std::uint64_t> {
  static constexpr std::int64_t kSide = 2;
  static HWY_INLINE void run(const std::uint64_t* s, std::int64_t ss, std::uint64_t* t, std::int64_t ts) {
    const hn::FixedTag<std::uint64_t, 2> d;
    const auto r0 = hn::LoadU(d, s), r1 = hn::LoadU(d, s + ss);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, t);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, t + ts);
  }
};
#endif

template <class T>
HWY_INLINE void transpose_block(const T* s, std::int64_t ss, T* t, std::int64_t ts, std::int64_t rows,
                                std::int64_t cols) {
  constexpr std::int64_t kSide = Square<T>::kSide;
  std::int64_t i = 0;
  for (; i + kSide <= rows; i += kSide) {
    std::int64_t j = 0;
    for (; j + kSide <= cols; j += kSide) Square<T>::run(s + j * ss + i, ss, t + i * ts + j, ts);
    for (; j < cols; ++j) {
      for (std::int64_t k = 0; k < kSide; ++k) t[(i + k) * ts + j] = s[j * ss + i + k];
    }
  }
  for (; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) t[i * ts + j] = s[j * ss + i];
  }
}

template <class T>
void transpose_typed(const void* source, std::int64_t ss, void* target, std::int64_t ts, std::int64_t rows,
                     std::int64_t cols) {
  constexpr std::int64_t kBlock = 128 / static_cast<std::int64_t>(sizeof(T));  // two cache lines in each direction
  const T* s = static_cast<const T*>(source);
  T* t = static_cast<T*>(target);
  for (std::int64_t i = 0; i < rows; i += kBlock) {
    for (std::int64_t j = 0; j < cols; j += kBlock) {
      transpose_block(s + j * ss + i, ss, t + i * ts + j, ts, std::min(kBlock, rows - i), std::min(kBlock, cols - j));
    }
  }
}

void transpose_any(const void* s, std::int64_t ss, void* t, std::int64_t ts, std::int64_t rows, std::int64_t cols,
                   int bytes) {
  if (bytes == 1) transpose_typed<std::uint8_t>(s, ss, t, ts, rows, cols);
  if (bytes == 2) transpose_typed<std::uint16_t>(s, ss, t, ts, rows, cols);
  if (bytes == 4) transpose_typed<std::uint32_t>(s, ss, t, ts, rows, cols);
  if (bytes == 8) transpose_typed<std::uint64_t>(s, ss, t, ts, rows, cols);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {
HWY_EXPORT(transpose_any);
}  // namespace

void transpose_strided(const void* source, std::int64_t source_stride, void* target, std::int64_t target_stride,
                       std::int64_t rows, std::int64_t cols, int element_bytes) {
  check(element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8,
        "[transpose] expected elements of 1, 2, 4 or 8 bytes, got {}", element_bytes);
  HWY_DYNAMIC_DISPATCH(transpose_any)(source, source_stride, target, target_stride, rows, cols, element_bytes);
}

}  // namespace starling::kernels
#endif
