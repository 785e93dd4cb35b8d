// Philox bits, uniform and normal numbers, a chunk at a time; used by random.cpp.
#if defined(STARLING_KERNELS_CPU_SIMD_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_PHILOX_INL_H
#undef STARLING_KERNELS_CPU_SIMD_PHILOX_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_PHILOX_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "starling/base/philox.h"
#include "starling/kernels/cpu/simd/math-inl.h"

#ifndef STARLING_KERNELS_CPU_SIMD_RANDOM_ONCE
#define STARLING_KERNELS_CPU_SIMD_RANDOM_ONCE
namespace starling::kernels {
// Numbers per chunk: a multiple of every vector's blocks, small enough for L1.
inline constexpr std::int64_t kRandomChunk = 256;
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // one lane: no halves to multiply, no pairs to interleave

HWY_INLINE void make_bits(const PhiloxStream& stream, std::uint64_t first, std::int64_t blocks, std::uint64_t* out) {
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(b);
    const PhiloxBlock block = philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                                          stream.counter_high[0], stream.counter_high[1]},
                                         stream.key);
    std::memcpy(out + 2 * b, block.data(), sizeof(block));
  }
}

template <class D, class V>
HWY_INLINE void load_pairs(D d, const hn::TFromD<D>* p, V& first, V& second) {
  first = hn::Load(d, p);
  second = hn::Load(d, p + 1);
}

template <class D, class V>
HWY_INLINE void store_pairs(D d, V first, V second, hn::TFromD<D>* p) {
  hn::Store(first, d, p);
  hn::Store(second, d, p + 1);
}

#else

template <class D, class V>
HWY_INLINE void load_pairs(D d, const hn::TFromD<D>* p, V& first, V& second) {
  hn::LoadInterleaved2(d, p, first, second);
}

template <class D, class V>
HWY_INLINE void store_pairs(D d, V first, V second, hn::TFromD<D>* p) {
  hn::StoreInterleaved2(first, second, d, p);
}

// Philox on one block per 64-bit lane; a word is the low half of its lane, and the high halves are never read.
template <class D>
class PhiloxVec {
 public:
  using V = hn::Vec<D>;
  HWY_INLINE PhiloxVec(D d, const PhiloxStream& stream, std::uint64_t first)
      : c0_(hn::Iota(d, first)),
        c1_(hn::ShiftRight<32>(c0_)),
        c2_(hn::Set(d, stream.counter_high[0])),
        c3_(hn::Set(d, stream.counter_high[1])) {}
  HWY_INLINE void round(D d, V k0, V k1) {
    const V p0 = product(d, c0_, 0xD2511F53u), p1 = product(d, c2_, 0xCD9E8D57u);
    c0_ = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1_), k0);
    c2_ = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3_), k1);
    c1_ = p1;
    c3_ = p0;
  }
  HWY_INLINE void store(D d, std::uint64_t* out) const { store_pairs(d, join(d, c0_, c1_), join(d, c2_, c3_), out); }

 private:
  static HWY_INLINE V product(D, V a, std::uint32_t factor) {
    const hn::Repartition<std::uint32_t, D> d32;
    return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, factor));
  }
  static HWY_INLINE V join(D d, V low, V high) {
    return hn::Or(hn::And(low, hn::Set(d, 0xffffffffu)), hn::ShiftLeft<32>(high));
  }
  V c0_, c1_, c2_, c3_;
};

// Bits of `blocks` blocks of four words from block `first` on, rounded up to pairs of vectors: two chains of products
// hide each other's latency.
HWY_INLINE void make_bits(const PhiloxStream& stream, std::uint64_t first, std::int64_t blocks, std::uint64_t* out) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t b = 0; b < blocks; b += 2 * lanes) {
    const std::uint64_t at = first + static_cast<std::uint64_t>(b);
    PhiloxVec<decltype(d)> even(d, stream, at), odd(d, stream, at + static_cast<std::uint64_t>(lanes));
    std::uint32_t k0 = stream.key[0], k1 = stream.key[1];
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const auto key0 = hn::Set(d, k0), key1 = hn::Set(d, k1);
      even.round(d, key0, key1);
      odd.round(d, key0, key1);
    }
    even.store(d, out + 2 * b);
    odd.store(d, out + 2 * (b + lanes));
  }
}

#endif

// Bits to floats in [0, 1).
template <class D, class VU>
HWY_INLINE hn::Vec<D> unit_float(D d, VU bits) {
  const hn::RebindToSigned<D> di;
  return hn::Mul(hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(bits))), hn::Set(d, 0x1p-24f));
}

inline void make_uniforms(const PhiloxStream& stream, std::uint64_t first_block, std::int64_t count, float* out) {
  alignas(64) std::uint64_t bits[kRandomChunk / 2];
  make_bits(stream, first_block, (count + 3) / 4, bits);
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto* words = reinterpret_cast<const std::uint32_t*>(bits);
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    hn::Store(unit_float(d, hn::Load(du, words + i)), d, out + i);
  }
}

// cos and sin of 2 pi u, u in [0, 1): quarter turns by sign and swap, Taylor within an eighth of a turn.
template <class D, class V>
HWY_INLINE void sincos_turns(D d, V u, V& cosine, V& sine) {
  const hn::RebindToSigned<D> di;
  const V quarters = hn::Mul(u, hn::Set(d, 4.0f));
  const V nearest = hn::Round(quarters);
  const V a = hn::Mul(hn::Sub(quarters, nearest), hn::Set(d, 1.57079632679489662f));
  const V z = hn::Mul(a, a);
  V s = hn::MulAdd(z, hn::Set(d, 1.0f / 362880), hn::Set(d, -1.0f / 5040));
  s = hn::MulAdd(hn::MulAdd(s, z, hn::Set(d, 1.0f / 120)), z, hn::Set(d, -1.0f / 6));
  s = hn::MulAdd(hn::Mul(s, z), a, a);
  V c = hn::MulAdd(z, hn::Set(d, 1.0f / 40320), hn::Set(d, -1.0f / 720));
  c = hn::MulAdd(hn::MulAdd(c, z, hn::Set(d, 1.0f / 24)), z, hn::Set(d, -0.5f));
  c = hn::MulAdd(c, z, hn::Set(d, 1.0f));
  const auto q = hn::ConvertTo(di, nearest);
  const auto swap = hn::RebindMask(d, hn::TestBit(q, hn::Set(di, 1)));
  const auto sine_sign = hn::ShiftLeft<30>(hn::And(q, hn::Set(di, 2)));
  const auto cosine_sign = hn::ShiftLeft<30>(hn::And(hn::Add(q, hn::Set(di, 1)), hn::Set(di, 2)));
  sine = hn::Xor(hn::IfThenElse(swap, c, s), hn::BitCast(d, sine_sign));
  cosine = hn::Xor(hn::IfThenElse(swap, s, c), hn::BitCast(d, cosine_sign));
}

inline void make_normals(const PhiloxStream& stream, std::uint64_t first_block, std::int64_t count, float* out) {
  alignas(64) std::uint64_t bits[kRandomChunk / 2];
  make_bits(stream, first_block, (count + 3) / 4, bits);
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto* words = reinterpret_cast<const std::uint32_t*>(bits);
  for (std::int64_t i = 0; i < count; i += 2 * static_cast<std::int64_t>(hn::Lanes(d))) {
    hn::Vec<decltype(du)> w1, w2;
    load_pairs(du, words + i, w1, w2);
    const V u1 = hn::Add(unit_float(d, w1), hn::Set(d, 0x1p-24f));
    const V radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0f), log_vec(d, u1)));
    V cosine, sine;
    sincos_turns(d, unit_float(d, w2), cosine, sine);
    store_pairs(d, hn::Mul(radius, cosine), hn::Mul(radius, sine), out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
