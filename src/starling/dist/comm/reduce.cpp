#include "starling/dist/comm/reduce.h"

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "starling/base/error.h"
#include "starling/tensor/dispatch.h"

namespace starling::dist {

namespace {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Accumulator type: integers unsigned, so that they wrap.
template <class T>
struct AccumulatorOf {
  using Type = typename std::make_unsigned<T>::type;
};
template <>
struct AccumulatorOf<double> {
  using Type = double;
};
template <>
struct AccumulatorOf<float> {
  using Type = float;
};
template <>
struct AccumulatorOf<Half> {
  using Type = float;
};
template <>
struct AccumulatorOf<BFloat16> {
  using Type = float;
};

// Sum and product. std::uint8_t and 32-bit operands stay unsigned, so nothing overflows.
struct Sum {
  template <class A, class V>
  static A combine(A a, V v) {
    return static_cast<A>(a + static_cast<A>(v));
  }
};
struct Product {
  template <class A, class V>
  static A combine(A a, V v) {
    return static_cast<A>(a * static_cast<A>(v));
  }
};
// NaN wins, whichever side it is on.
struct Max {
  template <class A, class V>
  static A combine(A a, V v) {
    const V b = static_cast<V>(a);
    return static_cast<A>(b > v || b != b ? b : v);
  }
};
struct Min {
  template <class A, class V>
  static A combine(A a, V v) {
    const V b = static_cast<V>(a);
    return static_cast<A>(b < v || b != b ? b : v);
  }
};

template <class T>
auto value(T x) {
  if constexpr (kIsHalf<T>) {
    return static_cast<float>(x);
  } else {
    return x;
  }
}

template <class T>
T result(typename AccumulatorOf<T>::Type x) {
  if constexpr (kIsHalf<T>) {
    return T::from_float(x);
  } else {
    return static_cast<T>(x);
  }
}

// Multiplies by the reciprocal for powers of two: same bits as the quotient, and faster.
template <class A>
void divide(A* values, std::int64_t count, std::size_t divisor) {
  const A d = static_cast<A>(divisor), reciprocal = A{1} / d;
  if (std::has_single_bit(divisor)) {
    for (std::int64_t i = 0; i < count; ++i) values[i] *= reciprocal;
  } else {
    for (std::int64_t i = 0; i < count; ++i) values[i] /= d;
  }
}

// Requires two or more sources.
template <class T, class Combine>
void accumulate(std::span<const void* const> sources, std::int64_t offset, std::int64_t count, bool mean, T* out) {
  using A = typename AccumulatorOf<T>::Type;
  constexpr bool kInResult = std::is_same_v<A, T>;  // no rounding at the end: accumulate in the result itself
  std::array<A, kInResult ? 1 : kReduceBlock> own;
  A* acc = own.data();
  if constexpr (kInResult) acc = out;
  const auto source = [&](std::size_t s) { return static_cast<const T*>(sources[s]) + offset; };
  const T *first = source(0), *second = source(1);
#pragma GCC ivdep  // the result may be the first source
  for (std::int64_t i = 0; i < count; ++i) {
    acc[i] = Combine::combine(static_cast<A>(value(first[i])), value(second[i]));
  }
  for (std::size_t next = 2; next < sources.size(); ++next) {
    const T* b = source(next);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) acc[i] = Combine::combine(acc[i], value(b[i]));
  }
  if constexpr (std::is_floating_point_v<A>) {
    if (mean) divide<A>(acc, count, sources.size());
  }
  if constexpr (!kInResult) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = result<T>(acc[i]);
  }
}

template <class T>
void reduce_as(ReduceOp reduce, std::span<const void* const> sources, std::int64_t offset, std::int64_t count, T* out) {
  switch (reduce) {
    case ReduceOp::sum: return accumulate<T, Sum>(sources, offset, count, false, out);
    case ReduceOp::mean: return accumulate<T, Sum>(sources, offset, count, true, out);
    case ReduceOp::product: return accumulate<T, Product>(sources, offset, count, false, out);
    case ReduceOp::max: return accumulate<T, Max>(sources, offset, count, false, out);
    case ReduceOp::min: return accumulate<T, Min>(sources, offset, count, false, out);
  }
}

template <class T>
void divide_as(T* data, std::int64_t count, int divisor) {
  if constexpr (kIsHalf<T>) {
    for (std::int64_t i = 0; i < count; ++i)
      data[i] = T::from_float(static_cast<float>(data[i]) / static_cast<float>(divisor));
  } else if constexpr (std::is_floating_point_v<T>) {
    divide<T>(data, count, static_cast<std::size_t>(divisor));
  }
}

}  // namespace

void divide_block(DType dtype, void* data, std::int64_t count, int divisor) {
  check(is_float(dtype), "[comm] expected a floating-point dtype to divide, got {}", name(dtype));
  dispatch(dtype, [&]<class T>() { divide_as<T>(static_cast<T*>(data), count, divisor); });
}

void reduce_block(DType dtype, ReduceOp reduce, std::span<const void* const> sources, std::int64_t offset,
                  std::int64_t count, void* out) {
  check(count <= kReduceBlock, "[comm] expected at most {} elements a block, got {}", kReduceBlock, count);
  if (sources.empty()) {
    std::memset(out, 0, static_cast<std::size_t>(count) * size_of(dtype));
    return;
  }
  if (sources.size() == 1) {  // every reduction of one value is that value
    const std::size_t size = size_of(dtype);
    const std::byte* only = static_cast<const std::byte*>(sources[0]) + static_cast<std::size_t>(offset) * size;
    if (out != only) std::memcpy(out, only, static_cast<std::size_t>(count) * size);
    return;
  }
  if (dtype == DType::boolean) dtype = DType::u8;  // bytes of 0 and 1: max is or, min is and
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) reduce_as<T>(reduce, sources, offset, count, static_cast<T*>(out));
  });
}

}  // namespace starling::dist
