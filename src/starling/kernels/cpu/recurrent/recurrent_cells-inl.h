// Per-target: one step of a recurrent cell for a vector's worth of hidden units of one row.
#if defined(STARLING_RECURRENT_CELLS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_RECURRENT_CELLS_INL_H
#undef STARLING_RECURRENT_CELLS_INL_H
#else
#define STARLING_RECURRENT_CELLS_INL_H
#endif

#include <hwy/highway.h>

#include "starling/kernels/cpu/recurrent/recurrent.h"
#include "starling/kernels/cpu/simd/math-inl.h"
#include "starling/kernels/cpu/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::recurrent_simd {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> kTag{};
constexpr std::int64_t kLanes = HWY_LANES(float);
using Vec = hn::Vec<hn::ScalableTag<float>>;

// Full vector, or the first few lanes of the last vector of a row.
template <bool kWhole>
struct Lanes {
  std::size_t count;
  HWY_INLINE Vec load(const float* from) const {
    if constexpr (kWhole) return hn::LoadU(kTag, from);
    return load_tail(kTag, from, count);
  }
  HWY_INLINE Vec load_or_zero(const float* base, std::int64_t at) const {
    return base ? load(base + at) : hn::Zero(kTag);
  }
  HWY_INLINE void store(Vec v, float* to) const {
    if constexpr (kWhole) {
      hn::StoreU(v, kTag, to);
    } else {
      store_tail(kTag, v, to, count);
    }
  }
};

// Element offsets of this row's first hidden unit.
struct RowOffsets {
  std::int64_t gates;  // in [t, n, gates · h], for the cell's kGates
  std::int64_t saved;  // in [t, n, saved · h]
  std::int64_t begin;  // in [t+1, n, h]: the state before the step
  std::int64_t end;    // and after it
  std::int64_t hidden;
  std::int64_t unit;
};

HWY_INLINE Vec one_minus(Vec y) { return hn::Sub(hn::Set(kTag, 1.0F), y); }
HWY_INLINE Vec sigmoid_slope(Vec y) { return hn::NegMulAdd(y, y, y); }
HWY_INLINE Vec tanh_slope(Vec y) { return hn::NegMulAdd(y, y, hn::Set(kTag, 1.0F)); }

// 1 / (1 + e⁻ˣ) for gates: within 4 ulp above e⁻⁸⁰, and never below that. Operand order that keeps NaN.
HWY_INLINE Vec gate_sigmoid(Vec x) {
  const Vec t = hn::Max(hn::Set(kTag, -80.0F), hn::Min(hn::Set(kTag, 80.0F), hn::Neg(x)));
  const auto parts = exp_parts(kTag, t);
  const Vec one = hn::Set(kTag, 1.0F);
  return hn::Div(one, hn::Add(one, times_exp2(kTag, hn::Add(parts.expm1_r, one), parts.exponent)));
}

// LSTM cell; `product` points at kGates vectors: the rows of W h for these units.
struct LstmCell {
  static constexpr int kGates = 4;
  static constexpr int kSaved = 4;
  static constexpr int kUnits = 1;

  template <class L>
  static HWY_INLINE void forward(const RecurrentForward& f, const RowOffsets& at, L lanes, const float* product) {
    const auto pre = [&](int g) HWY_ATTR {
      return hn::Add(lanes.load(f.gx + at.gates + g * at.hidden), hn::LoadU(kTag, product + g * kLanes));
    };
    const Vec i = gate_sigmoid(pre(0)), fg = gate_sigmoid(pre(1)), g = tanh_vec(kTag, pre(2)), o = gate_sigmoid(pre(3));
    const Vec c = hn::MulAdd(fg, lanes.load(f.cs + at.begin), hn::Mul(i, g));
    float* saved = f.gates + at.saved;
    lanes.store(i, saved);
    lanes.store(fg, saved + at.hidden);
    lanes.store(g, saved + 2 * at.hidden);
    lanes.store(o, saved + 3 * at.hidden);
    lanes.store(c, f.cs + at.end);
    lanes.store(hn::Mul(o, tanh_vec(kTag, c)), f.hs + at.end);
  }
  template <class L>
  static HWY_INLINE void carry(const RecurrentForward& f, const RowOffsets& at, L lanes) {
    lanes.store(lanes.load(f.hs + at.begin), f.hs + at.end);
    lanes.store(lanes.load(f.cs + at.begin), f.cs + at.end);
    for (int g = 0; g < kSaved; ++g) lanes.store(hn::Zero(kTag), f.gates + at.saved + g * at.hidden);
  }

  template <class L>
  static HWY_INLINE void backward(const RecurrentBackward& b, const RowOffsets& at, L lanes) {
    const float* saved = b.gates + at.saved;
    const Vec i = lanes.load(saved), fg = lanes.load(saved + at.hidden), g = lanes.load(saved + 2 * at.hidden),
              o = lanes.load(saved + 3 * at.hidden);
    const Vec tc = tanh_vec(kTag, lanes.load(b.cs + at.end)), dh = lanes.load(b.dh + at.end);
    const Vec dc = hn::MulAdd(hn::Mul(dh, o), tanh_slope(tc), lanes.load(b.dc + at.end));
    const auto store = [&](int k, Vec inner, Vec slope) HWY_ATTR {
      const Vec outer = lanes.load_or_zero(b.dgates, at.saved + k * at.hidden);
      lanes.store(hn::Mul(hn::Add(outer, inner), slope), b.dgx + at.gates + k * at.hidden);
    };
    store(0, hn::Mul(dc, g), sigmoid_slope(i));
    store(1, hn::Mul(dc, lanes.load(b.cs + at.begin)), sigmoid_slope(fg));
    store(2, hn::Mul(dc, i), tanh_slope(g));
    store(3, hn::Mul(dh, tc), sigmoid_slope(o));
    lanes.store(dc, b.dc + at.end);
    lanes.store(hn::MulAdd(dc, fg, lanes.load_or_zero(b.dcs, at.begin)), b.dc + at.begin);
    lanes.store(lanes.load(b.dhs + at.begin), b.dh + at.begin);
  }
  template <class L>
  static HWY_INLINE void carry_back(const RecurrentBackward& b, const RowOffsets& at, L lanes) {
    for (int g = 0; g < kGates; ++g) lanes.store(hn::Zero(kTag), b.dgx + at.gates + g * at.hidden);
    lanes.store(hn::Add(lanes.load_or_zero(b.dcs, at.begin), lanes.load(b.dc + at.end)), b.dc + at.begin);
    lanes.store(hn::Add(lanes.load(b.dhs + at.begin), lanes.load(b.dh + at.end)), b.dh + at.begin);
  }
};

struct GruCell {
  static constexpr int kGates = 3;
  static constexpr int kSaved = 4;
  static constexpr int kUnits = 1;

  template <class L>
  static HWY_INLINE void forward(const RecurrentForward& f, const RowOffsets& at, L lanes, const float* product) {
    const auto x = [&](int g) HWY_ATTR { return lanes.load(f.gx + at.gates + g * at.hidden); };
    const auto p = [&](int g) HWY_ATTR {
      return hn::Add(lanes.load(f.bias + g * at.hidden + at.unit), hn::LoadU(kTag, product + g * kLanes));
    };
    const Vec m = p(2), r = gate_sigmoid(hn::Add(x(0), p(0))), z = gate_sigmoid(hn::Add(x(1), p(1)));
    const Vec n = tanh_vec(kTag, hn::MulAdd(r, m, x(2)));
    float* saved = f.gates + at.saved;
    lanes.store(r, saved);
    lanes.store(z, saved + at.hidden);
    lanes.store(n, saved + 2 * at.hidden);
    lanes.store(m, saved + 3 * at.hidden);
    lanes.store(hn::MulAdd(z, hn::Sub(lanes.load(f.hs + at.begin), n), n), f.hs + at.end);
  }
  template <class L>
  static HWY_INLINE void carry(const RecurrentForward& f, const RowOffsets& at, L lanes) {
    lanes.store(lanes.load(f.hs + at.begin), f.hs + at.end);
    for (int g = 0; g < kSaved; ++g) lanes.store(hn::Zero(kTag), f.gates + at.saved + g * at.hidden);
  }

  template <class L>
  static HWY_INLINE void backward(const RecurrentBackward& b, const RowOffsets& at, L lanes) {
    const float* saved = b.gates + at.saved;
    const Vec r = lanes.load(saved), z = lanes.load(saved + at.hidden), n = lanes.load(saved + 2 * at.hidden),
              m = lanes.load(saved + 3 * at.hidden), dh = lanes.load(b.dh + at.end);
    const auto outer = [&](int k) HWY_ATTR { return lanes.load_or_zero(b.dgates, at.saved + k * at.hidden); };
    const auto store = [&](int k, Vec x, Vec p) HWY_ATTR {
      lanes.store(x, b.dgx + at.gates + k * at.hidden);
      lanes.store(p, b.dp + at.gates + k * at.hidden);
    };
    const Vec pre_n = hn::Mul(hn::MulAdd(dh, one_minus(z), outer(2)), tanh_slope(n));
    const Vec pre_r = hn::Mul(hn::MulAdd(pre_n, m, outer(0)), sigmoid_slope(r));
    const Vec pre_z = hn::Mul(hn::MulAdd(dh, hn::Sub(lanes.load(b.hs + at.begin), n), outer(1)), sigmoid_slope(z));
    store(0, pre_r, pre_r);
    store(1, pre_z, pre_z);
    store(2, pre_n, hn::MulAdd(pre_n, r, outer(3)));
    lanes.store(hn::MulAdd(dh, z, lanes.load(b.dhs + at.begin)), b.dh + at.begin);
  }
  template <class L>
  static HWY_INLINE void carry_back(const RecurrentBackward& b, const RowOffsets& at, L lanes) {
    for (int g = 0; g < kGates; ++g) {
      lanes.store(hn::Zero(kTag), b.dgx + at.gates + g * at.hidden);
      lanes.store(hn::Zero(kTag), b.dp + at.gates + g * at.hidden);
    }
    lanes.store(hn::Add(lanes.load(b.dhs + at.begin), lanes.load(b.dh + at.end)), b.dh + at.begin);
  }
};

template <bool kRelu>
struct RnnCell {
  static constexpr int kGates = 1;
  static constexpr int kSaved = 0;
  static constexpr int kUnits = 4;  // several vectors of units per tile

  template <class L>
  static HWY_INLINE void forward(const RecurrentForward& f, const RowOffsets& at, L lanes, const float* product) {
    const Vec x = hn::Add(lanes.load(f.gx + at.gates), hn::LoadU(kTag, product));
    // Operand order that keeps NaN.
    lanes.store(kRelu ? hn::Max(hn::Zero(kTag), x) : tanh_vec(kTag, x), f.hs + at.end);
  }
  template <class L>
  static HWY_INLINE void carry(const RecurrentForward& f, const RowOffsets& at, L lanes) {
    lanes.store(lanes.load(f.hs + at.begin), f.hs + at.end);
  }

  template <class L>
  static HWY_INLINE void backward(const RecurrentBackward& b, const RowOffsets& at, L lanes) {
    const Vec y = lanes.load(b.hs + at.end), dh = lanes.load(b.dh + at.end);
    const Vec dx = kRelu ? hn::IfThenElseZero(hn::Gt(y, hn::Zero(kTag)), dh) : hn::Mul(dh, tanh_slope(y));
    lanes.store(dx, b.dgx + at.gates);
    lanes.store(lanes.load(b.dhs + at.begin), b.dh + at.begin);
  }
  template <class L>
  static HWY_INLINE void carry_back(const RecurrentBackward& b, const RowOffsets& at, L lanes) {
    lanes.store(hn::Zero(kTag), b.dgx + at.gates);
    lanes.store(hn::Add(lanes.load(b.dhs + at.begin), lanes.load(b.dh + at.end)), b.dh + at.begin);
  }
};

}  // namespace HWY_NAMESPACE::recurrent_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
