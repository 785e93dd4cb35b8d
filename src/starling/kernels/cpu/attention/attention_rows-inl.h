// Per-target: operations on a row of scores.
#if defined(STARLING_ATTENTION_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_ATTENTION_ROWS_INL_H
#undef STARLING_ATTENTION_ROWS_INL_H
#else
#define STARLING_ATTENTION_ROWS_INL_H
#endif

#include <hwy/highway.h>

#include "starling/kernels/attention_shape.h"
#include "starling/kernels/cpu/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::attention_simd {
namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> kTag{};
constexpr std::int64_t kLanes = HWY_LANES(float);
using Vec = hn::Vec<hn::ScalableTag<float>>;

struct ScaleShift {
  float scale;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V) const {
    return hn::Mul(x, hn::Set(d, scale));
  }
};
struct ScaleAdd {
  float scale;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V mask) const {
    return hn::MulAdd(x, hn::Set(d, scale), mask);
  }
};

// row = row · scale + mask for n keys from `key` on; -inf where a boolean mask is false.
HWY_INLINE void finish_scores(const AttentionShape& s, const void* mask, std::int64_t mask_row, std::int64_t key,
                              float* row, std::int64_t n) {
  const auto scale = static_cast<float>(s.scale);
  if (s.mask == AttentionShape::Mask::none) return row_map(row, row, row, n, ScaleShift{scale});
  const std::int64_t step = s.mask_col_stride(), at = mask_row + key * step;
  if (s.mask == AttentionShape::Mask::added) {
    const float* add = static_cast<const float*>(mask) + at;
    if (step == 1) return row_map(row, add, row, n, ScaleAdd{scale});
    for (std::int64_t j = 0; j < n; ++j) row[j] = row[j] * scale + add[j * step];
    return;
  }
  const bool* seen = static_cast<const bool*>(mask) + at;
  for (std::int64_t j = 0; j < n; ++j)
    row[j] = seen[j * step] ? row[j] * scale : -std::numeric_limits<float>::infinity();
}

// Turns scores into probabilities exp(score - lse), and inner products dy · v into gradients of the scores.
HWY_INLINE void backward_row(float* scores, float* inner, std::int64_t n, float lse, float delta, float scale) {
  const Vec shift = hn::Set(kTag, lse), minus = hn::Set(kTag, delta), factor = hn::Set(kTag, scale);
  // Whole vectors may be written, since both rows end in their own padding.
  for (std::int64_t j = 0; j < n; j += kLanes) {
    const Vec p = exp_vec(kTag, hn::Sub(hn::LoadU(kTag, scores + j), shift));
    const Vec ds = hn::Mul(hn::Mul(p, factor), hn::Sub(hn::LoadU(kTag, inner + j), minus));
    hn::StoreU(p, kTag, scores + j);
    hn::StoreU(ds, kTag, inner + j);
  }
}

struct Times {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Mul(a, b);
  }
};

}  // namespace HWY_NAMESPACE::attention_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
