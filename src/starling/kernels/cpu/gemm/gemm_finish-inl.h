// Per-target: the epilogue of a finished block of the product. Included once for each Highway target.
#include <cstdint>

#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

#if defined(STARLING_GEMM_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_GEMM_FINISH_INL_H
#undef STARLING_GEMM_FINISH_INL_H
#else
#define STARLING_GEMM_FINISH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::gemm_simd {
namespace hn = hwy::HWY_NAMESPACE;

// Calls f(column, count) for whole vectors and then for the rest of a row.
template <class T, class F>
HWY_INLINE void for_vectors(std::int64_t cols, F&& f) {
  constexpr std::int64_t L = HWY_LANES(T);
  std::int64_t c = 0;
  for (; c + L <= cols; c += L) f(c, L);
  if (c < cols) f(c, cols - c);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_some(D d, const T* from, std::int64_t count) {
  return count == static_cast<std::int64_t>(HWY_LANES(T)) ? hn::LoadU(d, from) : load_first(d, from, count);
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_some(hn::Vec<D> v, D d, T* to, std::int64_t count) {
  if (count == static_cast<std::int64_t>(HWY_LANES(T))) {
    hn::StoreU(v, d, to);
  } else {
    store_first(v, d, to, count);
  }
}

// Out of line: the code is long, and rows are short.
inline HWY_NOINLINE void activate_row(GemmActivation activation, float* row, std::int64_t cols) {
  const hn::ScalableTag<float> d;
  const auto zero = hn::Zero(d);
  // No mask for the last vector: rows of the block are padded to whole vectors.
  for (std::int64_t c = 0; c < cols; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto x = hn::LoadU(d, row + c);
    if (activation == GemmActivation::kRelu) {
      hn::StoreU(hn::Max(zero, x), d, row + c);  // operand order that keeps NaN
    } else if (activation == GemmActivation::kTanh) {
      hn::StoreU(tanh_vec(d, x), d, row + c);
    } else {
      hn::StoreU(sigmoid_vec(d, x), d, row + c);
    }
  }
}

inline HWY_NOINLINE void derive_row(GemmActivation activation, const float* saved, float* row, std::int64_t cols) {
  const hn::ScalableTag<float> d;
  const auto one = hn::Set(d, 1.0F);
  for_vectors<float>(cols, [&](std::int64_t c, std::int64_t count) HWY_ATTR {
    const auto g = hn::LoadU(d, row + c);
    const auto y = load_some(d, saved + c, count);
    if (activation == GemmActivation::kRelu) {
      hn::StoreU(hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), g), d, row + c);
    } else if (activation == GemmActivation::kTanh) {
      hn::StoreU(hn::Mul(g, hn::NegMulAdd(y, y, one)), d, row + c);
    } else {
      hn::StoreU(hn::Mul(g, hn::Mul(y, hn::Sub(one, y))), d, row + c);
    }
  });
}

inline void bias_row(const GemmEpilogue& e, std::int64_t r, std::int64_t c0, float* row, std::int64_t cols) {
  const hn::ScalableTag<float> d;
  const auto column_bias = hn::Set(d, e.bias_m ? e.bias_m[r] : 0.0F);
  for_vectors<float>(cols, [&](std::int64_t c, std::int64_t count) HWY_ATTR {
    auto x = hn::Add(hn::LoadU(d, row + c), column_bias);
    if (e.bias_n) x = hn::Add(x, load_some(d, e.bias_n + c0 + c, count));
    hn::StoreU(x, d, row + c);
  });
}

inline void sgd_row(const GemmSgd& sgd, std::int64_t at, const float* row, std::int64_t cols) {
  const hn::ScalableTag<float> d;
  const auto rate = hn::Set(d, *sgd.learning_rate);
  const auto decay = hn::Set(d, sgd.weight_decay);
  const auto momentum = hn::Set(d, sgd.momentum);
  for_vectors<float>(cols, [&](std::int64_t c, std::int64_t count) HWY_ATTR {
    float* weights = sgd.weights + at + c;
    const auto w = load_some(d, weights, count);
    auto v = hn::MulAdd(decay, w, hn::LoadU(d, row + c));
    if (sgd.velocity) {
      float* velocity = sgd.velocity + at + c;
      v = hn::MulAdd(momentum, load_some(d, velocity, count), v);
      store_some(v, d, velocity, count);
    }
    store_some(hn::NegMulAdd(rate, v, w), d, weights, count);
  });
}

template <class T>
void store_row(const T* row, T* to, std::int64_t cols, bool accumulate) {
  const hn::ScalableTag<T> d;
  for_vectors<T>(cols, [&](std::int64_t c, std::int64_t count) HWY_ATTR {
    auto x = hn::LoadU(d, row + c);
    if (accumulate) x = hn::Add(x, load_some(d, to + c, count));
    store_some(x, d, to + c, count);
  });
}

inline bool is_plain(const GemmEpilogue& e) {
  return !e.bias_n && !e.bias_m && e.activation == GemmActivation::kNone && e.derivative == GemmActivation::kNone &&
         !e.sgd;
}

// True if the epilogue is at most a bias and a relu, which the tile applies in registers; others need the finished
// block in memory. Doubles have only accumulate.
template <class T>
bool ends_in_tile(const GemmEpilogue& e) {
  const bool simple = e.activation == GemmActivation::kNone || e.activation == GemmActivation::kRelu;
  return sizeof(T) == sizeof(double) || (simple && e.derivative == GemmActivation::kNone && !e.sgd);
}

inline void add_row(const float* from, float* row, std::int64_t cols) {
  const hn::ScalableTag<float> d;
  for_vectors<float>(cols, [&](std::int64_t c, std::int64_t count) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, row + c), load_some(d, from + c, count)), d, row + c);
  });
}

// Applies the epilogue to the block [rows, cols] of the product at (r0, c0) of C. The block is overwritten; its rows
// are ld apart and padded to whole vectors.
inline void finish_block(const GemmEpilogue& e, float* block, std::int64_t ld, std::int64_t r0, std::int64_t c0,
                         std::int64_t rows, std::int64_t cols, float* c, std::int64_t ldc) {
  const bool plain = is_plain(e);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* row = block + i * ld;
    const std::int64_t r = r0 + i;
    if (plain) {
      store_row(row, c + r * ldc + c0, cols, e.accumulate);
      continue;
    }
    if (e.accumulate) add_row(c + r * ldc + c0, row, cols);
    if (e.bias_n || e.bias_m) bias_row(e, r, c0, row, cols);
    if (e.activation != GemmActivation::kNone) activate_row(e.activation, row, cols);
    if (e.derivative != GemmActivation::kNone)
      derive_row(e.derivative, e.saved_output + r * e.ld_saved + c0, row, cols);
    if (e.sgd) {
      sgd_row(*e.sgd, r * ldc + c0, row, cols);
    } else {
      store_row(row, c + r * ldc + c0, cols, false);
    }
  }
}

}  // namespace HWY_NAMESPACE::gemm_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
