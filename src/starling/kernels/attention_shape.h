#pragma once

#include <algorithm>
#include <cmath>

#include "starling/kernels/kernel.h"
#include "starling/kernels/strides.h"
#include "starling/ops/api/attention.h"
#include "starling/ops/def/attrs/attention.h"

namespace starling::kernels {

// Attention as its kernels see it: leading dimensions flattened into one batch, operands and mask accessed by strides.
struct AttentionShape {
  enum class Mask : std::uint8_t { none, boolean, added };
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t d = 0;
  std::int64_t dv = 0;
  double scale = 1;
  bool causal = false;
  Mask mask = Mask::none;
  Shape leading{};
  Shape mask_strides{};  // over the leading dimensions, queries and keys; 0 where the mask is broadcast
  // Strides over the leading dimensions and rows; fast kernels need contiguous rows.
  Shape q_strides{}, k_strides{}, v_strides{}, dy_strides{};

  // Number of keys that query i attends to, from the first on.
  std::int64_t seen(std::int64_t i) const { return causal ? std::min(keys, i + 1) : keys; }
  std::int64_t mask_at(std::int64_t b) const { return entry_at(mask_strides, b); }
  // Offset of batch entry b of an operand with these strides.
  std::int64_t entry_at(const Shape& strides, std::int64_t b) const {
    std::int64_t at = 0;
    for (int i = leading.rank() - 1; i >= 0; --i) {
      at += b % leading[i] * strides[i];
      b /= leading[i];
    }
    return at;
  }
  std::int64_t row_stride(const Shape& strides) const { return strides[leading.rank()]; }
  std::int64_t mask_row_stride() const { return mask_strides[leading.rank()]; }
  std::int64_t mask_col_stride() const { return mask_strides[leading.rank() + 1]; }
};

// Shape from a request whose operand `q` is followed by k and v; the mask, if any, is operand `mask`.
inline AttentionShape attention_shape(const PlanRequest& request, std::size_t q, std::size_t mask) {
  const Shape &qs = request.in[q].shape, &vs = request.in[q + 2].shape;
  AttentionShape s;
  double scale = 0;
  const auto take = [&](const auto& attrs) { s.causal = attrs.causal, scale = attrs.scale; };
  if (q == 0)
    take(request.attrs.as<op::AttentionAttrs>());
  else
    take(request.attrs.as<op::AttentionBackwardAttrs>());
  const int rank = qs.rank();
  for (int i = 0; i < rank - 2; ++i) s.leading.push_back(qs[i]);
  s.batch = s.leading.numel();
  s.queries = qs[rank - 2], s.keys = vs[rank - 2], s.d = qs.back(), s.dv = vs.back();
  s.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(s.d, 1)));
  s.q_strides = request.in[q].strides, s.k_strides = request.in[q + 1].strides, s.v_strides = request.in[q + 2].strides;
  s.dy_strides = request.in[0].strides;
  if (request.in.size() <= mask) return s;
  Shape full = s.leading;
  full.push_back(s.queries);
  full.push_back(s.keys);
  const ArgDesc& arg = request.in[mask];
  s.mask = arg.dtype == DType::boolean ? AttentionShape::Mask::boolean : AttentionShape::Mask::added;
  s.mask_strides = broadcast_strides(arg.shape, arg.strides, full);
  return s;
}

}  // namespace starling::kernels
