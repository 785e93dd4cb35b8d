// Turns a functor on vectors into BlockFns. A family file defines a new elementwise function alone, without a central
// list:
//
//   #include "starling/kernels/cpu/simd/targets.h"
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/softplus.cpp"  // this very file
//   #include <hwy/foreach_target.h>  // compiles the part below once per instruction set
//
//   #include "starling/kernels/cpu/simd/map-inl.h"
//   #include "starling/kernels/cpu/simd/math-inl.h"
//
//   HWY_BEFORE_NAMESPACE();
//   namespace starling::kernels::HWY_NAMESPACE {
//   struct Softplus {
//     static constexpr int kArity = 1;
//     template <class D, class V>
//     HWY_INLINE V operator()(D d, V x, const double*) const { return ...; }
//   };
//   void add_blocks(BlockTable& table) { table.add(make_block<Softplus, float, double>("softplus")); }
//   }  // namespace starling::kernels::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE
//   namespace starling::kernels {
//   STARLING_REGISTER_BLOCKS(softplus, add_blocks);  // fns.h
//   }  // namespace starling::kernels
//   #endif
//
// The functor takes kArity vectors and the parameters. It returns a vector, or a mask when its output is bool. A
// functor with `static constexpr unsigned kBoolInputs` gets masks for the operands whose bit is set. On the lane type
// of bools it works on vectors of bytes that are 0 or 1, and must return such. The functor is a struct, not a lambda:
// GCC does not pass the instruction set on to lambdas.
#if defined(STARLING_KERNELS_CPU_SIMD_MAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_MAP_INL_H
#undef STARLING_KERNELS_CPU_SIMD_MAP_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_MAP_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "starling/kernels/cpu/simd/block.h"
#include "starling/kernels/cpu/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Base classes of functors, by arity.
struct MapUnary {
  static constexpr int kArity = 1;
};
struct MapBinary {
  static constexpr int kArity = 2;
};
struct MapTernary {
  static constexpr int kArity = 3;
};

// Parameter i in every lane.
template <class D>
HWY_INLINE hn::Vec<D> param(D d, const double* params, int i) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(params[i]));
}

template <class F>
constexpr unsigned bool_inputs_of() {
  if constexpr (requires { F::kBoolInputs; }) {
    return F::kBoolInputs;
  } else {
    return 0;
  }
}

// Masks are stored as bytes of 0 or 1.
template <class D>
HWY_INLINE hn::Mask<D> load_bools([[maybe_unused]] D d, const std::uint8_t* p) {
  constexpr std::size_t kBytes = sizeof(hn::TFromD<D>);
  const hn::RebindToUnsigned<D> du;
  if constexpr (kBytes == 1) {
    return hn::Ne(hn::LoadU(d, p), hn::Zero(d));
  } else {
    const auto wide = hn::PromoteTo(hn::Rebind<std::uint32_t, D>(), hn::LoadU(hn::Rebind<std::uint8_t, D>(), p));
    if constexpr (kBytes == 4) {
      return hn::RebindMask(d, hn::Ne(wide, hn::Zero(du)));
    } else {
      return hn::RebindMask(d, hn::Ne(hn::PromoteTo(du, wide), hn::Zero(du)));
    }
  }
}

template <class D>
HWY_INLINE void store_bools([[maybe_unused]] D d, hn::Mask<D> m, std::uint8_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(du, m), hn::Set(du, 1));
  if constexpr (sizeof(hn::TFromD<D>) == 1) {
    hn::StoreU(ones, d8, p);
  } else {
    hn::StoreU(hn::TruncateTo(d8, ones), d8, p);
  }
}

// Operand of the loop: the array itself, or a vector of one repeated element that never advances. One loop then serves
// every mix of arrays and scalars, at the price of a load that always hits L1.
template <class T, bool IsBool>
struct MapOperand {
  using Element = std::conditional_t<IsBool, std::uint8_t, T>;
  static constexpr hn::ScalableTag<T> kTag{};
  alignas(64) Element repeated[HWY_MAX_BYTES / sizeof(T)];
  const Element* p;
  std::int64_t step;

  HWY_INLINE void init(const void* in, bool scalar) {
    p = static_cast<const Element*>(in);
    step = scalar ? 0 : static_cast<std::int64_t>(hn::Lanes(kTag));
    if (!scalar) return;
    for (std::size_t i = 0; i < hn::Lanes(kTag); ++i) repeated[i] = *static_cast<const Element*>(in);
    p = repeated;
  }
  // Loop position, kept apart from `repeated` so that compilers hold it in registers.
  struct Cursor {
    const Element* p;
    std::int64_t step;
    HWY_INLINE auto next() {
      const Element* at = p;
      p += step;
      if constexpr (IsBool) {
        return load_bools(kTag, at);
      } else {
        return hn::LoadU(kTag, at);
      }
    }
    // Prefetches two kilobytes ahead: when arithmetic is as slow as memory, the processor does not run ahead that far
    // by itself.
    HWY_INLINE void ask_ahead() const { hwy::Prefetch(p + (step == 0 ? 0 : 2048 / sizeof(Element))); }
  };
  HWY_INLINE Cursor cursor() const { return {p, step}; }
  HWY_INLINE void go_on(const Cursor& cursor) { p = cursor.p; }
  HWY_INLINE void skip(std::size_t count) { p += step == 0 ? 0 : count; }
  // First `count` elements of the next vector.
  HWY_INLINE auto first(std::size_t count) {
    if constexpr (IsBool) {
      std::uint8_t bytes[HWY_MAX_BYTES / sizeof(T)] = {};
      for (std::size_t i = 0; i < count; ++i) bytes[i] = p[i];
      return load_bools(kTag, bytes);
    } else {
      return step == 0 ? hn::LoadU(kTag, p) : load_tail(kTag, p, count);
    }
  }
};

// `stream`: non-temporal store to an aligned address.
template <class D, class R>
HWY_INLINE void map_store(D d, R result, void* out, std::int64_t i, [[maybe_unused]] bool stream) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<R, hn::Vec<D>>) {
    if (stream)
      hn::Stream(result, d, static_cast<T*>(out) + i);
    else
      hn::StoreU(result, d, static_cast<T*>(out) + i);
  } else {
    store_bools(d, result, static_cast<std::uint8_t*>(out) + i);
  }
}

template <class D, class R>
HWY_INLINE void map_store_tail(D d, R result, void* out, std::int64_t i, std::size_t count) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_same_v<R, hn::Vec<D>>) {
    store_tail(d, result, static_cast<T*>(out) + i, count);
  } else {
    std::uint8_t bytes[HWY_MAX_BYTES / sizeof(T)];
    store_bools(d, result, bytes);
    for (std::size_t k = 0; k < count; ++k) (static_cast<std::uint8_t*>(out) + i)[k] = bytes[k];
  }
}

template <class F, class T>
struct MapOperands {
  static constexpr hn::ScalableTag<T> kTag{};
  static constexpr unsigned kBools = bool_inputs_of<F>();
  MapOperand<T, (kBools & 1) != 0> a;
  MapOperand<T, (kBools & 2) != 0> b;
  MapOperand<T, (kBools & 4) != 0> c;

  HWY_INLINE void init(const void* const* in, unsigned scalars) {
    a.init(in[0], (scalars & 1) != 0);
    if constexpr (F::kArity > 1) b.init(in[1], (scalars & 2) != 0);
    if constexpr (F::kArity > 2) c.init(in[2], (scalars & 4) != 0);
  }
  struct Cursors {
    typename MapOperand<T, (kBools & 1) != 0>::Cursor a;
    typename MapOperand<T, (kBools & 2) != 0>::Cursor b;
    typename MapOperand<T, (kBools & 4) != 0>::Cursor c;
    HWY_INLINE auto next(const double* params) {
      const F f{};
      if constexpr (F::kArity == 1) return f(kTag, a.next(), params);
      if constexpr (F::kArity == 2) return f(kTag, a.next(), b.next(), params);
      if constexpr (F::kArity == 3) return f(kTag, a.next(), b.next(), c.next(), params);
    }
    HWY_INLINE void ask_ahead() const {
      a.ask_ahead();
      if constexpr (F::kArity > 1) b.ask_ahead();
      if constexpr (F::kArity > 2) c.ask_ahead();
    }
  };
  HWY_INLINE Cursors cursors() const {
    Cursors made{a.cursor(), {}, {}};
    if constexpr (F::kArity > 1) made.b = b.cursor();
    if constexpr (F::kArity > 2) made.c = c.cursor();
    return made;
  }
  HWY_INLINE void go_on(const Cursors& cursors) {
    a.go_on(cursors.a);
    if constexpr (F::kArity > 1) b.go_on(cursors.b);
    if constexpr (F::kArity > 2) c.go_on(cursors.c);
  }
  HWY_INLINE auto first(std::size_t count, const double* params) {
    const F f{};
    if constexpr (F::kArity == 1) return f(kTag, a.first(count), params);
    if constexpr (F::kArity == 2) return f(kTag, a.first(count), b.first(count), params);
    if constexpr (F::kArity == 3) return f(kTag, a.first(count), b.first(count), c.first(count), params);
  }
  HWY_INLINE void skip(std::size_t count) {
    a.skip(count);
    if constexpr (F::kArity > 1) b.skip(count);
    if constexpr (F::kArity > 2) c.skip(count);
  }
};

// True if results are stored past the caches: so large that they would be evicted before being read, and not in place.
template <class F, class T>
HWY_INLINE bool map_streams(const void* const* in, const void* out, std::int64_t n) {
  constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;  // per thread
  bool over = n * static_cast<std::int64_t>(sizeof(T)) < kStreamBytes;
  for (int k = 0; k < F::kArity; ++k) over = over || in[k] == out;
  return !over && reinterpret_cast<std::uintptr_t>(out) % sizeof(T) == 0;
}

template <class F, class T>
void map_block(const void* const* in, unsigned scalars, void* out, std::int64_t n, const double* params) {
  constexpr hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (n <= 0) return;
  MapOperands<F, T> operands;
  operands.init(in, scalars);
  std::int64_t i = 0;
  const bool stream = map_streams<F, T>(in, out, n);
  if (stream) {
    const std::size_t bytes = hn::Lanes(d) * sizeof(T);
    const std::size_t head = (bytes - reinterpret_cast<std::uintptr_t>(out) % bytes) % bytes / sizeof(T);
    map_store_tail(d, operands.first(head, params), out, 0, head);
    operands.skip(head);
    i = static_cast<std::int64_t>(head);
  }
  auto cursors = operands.cursors();
  if (stream) {
    for (; i + lanes <= n; i += lanes) {
      cursors.ask_ahead();
      map_store(d, cursors.next(params), out, i, true);
    }
    hwy::FlushStream();
  }
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto first = cursors.next(params), second = cursors.next(params);
    map_store(d, first, out, i, false);
    map_store(d, second, out, i + lanes, false);
  }
  for (; i + lanes <= n; i += lanes) map_store(d, cursors.next(params), out, i, false);
  operands.go_on(cursors);
  if (i == n) return;
  const std::size_t rest = static_cast<std::size_t>(n - i);
  map_store_tail(d, operands.first(rest, params), out, i, rest);
}

template <class T>
constexpr BlockType lane_of() {
  if constexpr (std::is_same_v<T, float>) return BlockType::f32;
  if constexpr (std::is_same_v<T, double>) return BlockType::f64;
  if constexpr (std::is_same_v<T, std::int32_t>) return BlockType::i32;
  if constexpr (std::is_same_v<T, std::int64_t>) return BlockType::i64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return BlockType::boolean;
}

// True if F returns a mask, tested with one lane type.
template <class F, class T>
constexpr bool returns_bool() {
  using D = hn::ScalableTag<T>;
  using A = std::conditional_t<(bool_inputs_of<F>() & 1) != 0, hn::Mask<D>, hn::Vec<D>>;
  using V = hn::Vec<D>;
  if constexpr (F::kArity == 1) return !std::is_same_v<std::invoke_result_t<F, D, A, const double*>, V>;
  if constexpr (F::kArity == 2) return !std::is_same_v<std::invoke_result_t<F, D, A, V, const double*>, V>;
  if constexpr (F::kArity == 3) return !std::is_same_v<std::invoke_result_t<F, D, A, V, V, const double*>, V>;
}

template <class F, class First, class... Rest>
BlockEntry make_block(std::string_view name) {
  BlockEntry entry{name, F::kArity, bool_inputs_of<F>(), returns_bool<F, First>(), {}};
  entry.fn[static_cast<std::size_t>(lane_of<First>())] = &map_block<F, First>;
  ((entry.fn[static_cast<std::size_t>(lane_of<Rest>())] = &map_block<F, Rest>), ...);
  return entry;
}

// Adds the function for floats, for all numbers, for every lane type.
template <class F>
void add_float(BlockTable& table, std::string_view name) {
  table.add(make_block<F, float, double>(name));
}
template <class F>
void add_any(BlockTable& table, std::string_view name) {
  table.add(make_block<F, float, double, std::int32_t, std::int64_t>(name));
}
template <class F>
void add_every(BlockTable& table, std::string_view name) {
  table.add(make_block<F, float, double, std::int32_t, std::int64_t, std::uint8_t>(name));
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
