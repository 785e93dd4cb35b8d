#pragma once

#include "starling/ops/def/attrs/pool.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Pooling of x [n, c, …] with one, two or three spatial dimensions. Attributes have one number per spatial dimension,
// or a single number for all; without a stride it is the kernel size. Padding is at most half the kernel. With
// ceil_mode a last partial window counts if it starts inside the image or its leading padding.

// Largest element of each window: padding never wins, the first of equal values does, a NaN beats numbers. The indices
// are computed and kept only if x needs a gradient.
Tensor max_pool1d(const Tensor& x, const op::MaxPoolAttrs& attrs = {});
Tensor max_pool2d(const Tensor& x, const op::MaxPoolAttrs& attrs = {});
Tensor max_pool3d(const Tensor& x, const op::MaxPoolAttrs& attrs = {});

// Max pooling with indices (i32) into the flattened spatial dimensions of x.
struct MaxPooled {
  Tensor y;
  Tensor index;
};
MaxPooled max_pool1d_with_index(const Tensor& x, const op::MaxPoolAttrs& attrs = {});
MaxPooled max_pool2d_with_index(const Tensor& x, const op::MaxPoolAttrs& attrs = {});
MaxPooled max_pool3d_with_index(const Tensor& x, const op::MaxPoolAttrs& attrs = {});

Tensor avg_pool1d(const Tensor& x, const op::AvgPoolAttrs& attrs = {});
Tensor avg_pool2d(const Tensor& x, const op::AvgPoolAttrs& attrs = {});
Tensor avg_pool3d(const Tensor& x, const op::AvgPoolAttrs& attrs = {});

// (Σ |x|ᵖ)^(1/p) over each window, p ≥ 1; p = 2 is L2 pooling. The gradient is 0 where the result is 0.
Tensor lp_pool1d(const Tensor& x, const op::LpPoolAttrs& attrs = {});
Tensor lp_pool2d(const Tensor& x, const op::LpPoolAttrs& attrs = {});
Tensor lp_pool3d(const Tensor& x, const op::LpPoolAttrs& attrs = {});

// Adaptive pooling: windows cover the image evenly; the i-th of m over n elements is [⌊i·n/m⌋, ⌈(i + 1)·n/m⌉).
Tensor adaptive_max_pool1d(const Tensor& x, const op::AdaptivePoolAttrs& attrs = {});
Tensor adaptive_max_pool2d(const Tensor& x, const op::AdaptivePoolAttrs& attrs = {});
Tensor adaptive_max_pool3d(const Tensor& x, const op::AdaptivePoolAttrs& attrs = {});
Tensor adaptive_avg_pool1d(const Tensor& x, const op::AdaptivePoolAttrs& attrs = {});
Tensor adaptive_avg_pool2d(const Tensor& x, const op::AdaptivePoolAttrs& attrs = {});
Tensor adaptive_avg_pool3d(const Tensor& x, const op::AdaptivePoolAttrs& attrs = {});

// Pooling over all spatial dimensions: [n, c, …] → [n, c, 1, …].
Tensor global_max_pool(const Tensor& x);
Tensor global_avg_pool(const Tensor& x);

}  // namespace starling
