#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Pooling of x [n, c, …] with one, two or three spatial dimensions. Attributes have one number per spatial dimension,
// or a single number for all; without a stride it is the kernel size. Padding is at most half the kernel. With
// ceil_mode a last partial window counts if it starts inside the image or its leading padding.

struct MaxPoolAttrs {
  Shape kernel{2};
  Shape stride{};
  Shape padding{0};
  Shape dilation{1};
  bool ceil_mode = false;
  static AttrFields fields() {
    return {field("kernel", &MaxPoolAttrs::kernel), field("stride", &MaxPoolAttrs::stride),
            field("padding", &MaxPoolAttrs::padding), field("dilation", &MaxPoolAttrs::dilation),
            field("ceil_mode", &MaxPoolAttrs::ceil_mode)};
  }
};

struct AvgPoolAttrs {
  Shape kernel{2};
  Shape stride{};
  Shape padding{0};
  bool ceil_mode = false;
  bool count_include_pad = true;  // padding counts as zeros in the mean
  std::int64_t divisor = 0;       // divisor of the sums; 0: the number of elements
  static AttrFields fields() {
    return {field("kernel", &AvgPoolAttrs::kernel),   field("stride", &AvgPoolAttrs::stride),
            field("padding", &AvgPoolAttrs::padding), field("ceil_mode", &AvgPoolAttrs::ceil_mode),
            field("divisor", &AvgPoolAttrs::divisor), field("count_include_pad", &AvgPoolAttrs::count_include_pad)};
  }
};

struct AvgPoolGradAttrs {
  Shape shape{};  // shape of x
  Shape kernel{2};
  Shape stride{};
  Shape padding{0};
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor = 0;
  static AttrFields fields() {
    return {field("shape", &AvgPoolGradAttrs::shape),
            field("kernel", &AvgPoolGradAttrs::kernel),
            field("stride", &AvgPoolGradAttrs::stride),
            field("padding", &AvgPoolGradAttrs::padding),
            field("ceil_mode", &AvgPoolGradAttrs::ceil_mode),
            field("count_include_pad", &AvgPoolGradAttrs::count_include_pad),
            field("divisor", &AvgPoolGradAttrs::divisor)};
  }
};

struct LpPoolAttrs {
  double p = 2;
  Shape kernel{2};
  Shape stride{};
  bool ceil_mode = false;
  static AttrFields fields() {
    return {field("p", &LpPoolAttrs::p), field("kernel", &LpPoolAttrs::kernel), field("stride", &LpPoolAttrs::stride),
            field("ceil_mode", &LpPoolAttrs::ceil_mode)};
  }
};

struct AdaptivePoolAttrs {
  Shape size{1};  // spatial sizes of the result; one number for all
  static AttrFields fields() { return {field("size", &AdaptivePoolAttrs::size)}; }
};

struct ExponentAttrs {
  double exponent = 1;
  static AttrFields fields() { return {field("exponent", &ExponentAttrs::exponent)}; }
};

// Largest element of each window: padding never wins, the first of equal values does, a NaN beats numbers. The indices
// are computed and kept only if x needs a gradient.
Tensor max_pool1d(const Tensor& x, const MaxPoolAttrs& attrs = {});
Tensor max_pool2d(const Tensor& x, const MaxPoolAttrs& attrs = {});
Tensor max_pool3d(const Tensor& x, const MaxPoolAttrs& attrs = {});

// Max pooling with indices (i32) into the flattened spatial dimensions of x.
struct MaxPooled {
  Tensor y;
  Tensor index;
};
MaxPooled max_pool1d_with_index(const Tensor& x, const MaxPoolAttrs& attrs = {});
MaxPooled max_pool2d_with_index(const Tensor& x, const MaxPoolAttrs& attrs = {});
MaxPooled max_pool3d_with_index(const Tensor& x, const MaxPoolAttrs& attrs = {});

Tensor avg_pool1d(const Tensor& x, const AvgPoolAttrs& attrs = {});
Tensor avg_pool2d(const Tensor& x, const AvgPoolAttrs& attrs = {});
Tensor avg_pool3d(const Tensor& x, const AvgPoolAttrs& attrs = {});

// (Σ |x|ᵖ)^(1/p) over each window, p ≥ 1; p = 2 is L2 pooling. The gradient is 0 where the result is 0.
Tensor lp_pool1d(const Tensor& x, const LpPoolAttrs& attrs = {});
Tensor lp_pool2d(const Tensor& x, const LpPoolAttrs& attrs = {});
Tensor lp_pool3d(const Tensor& x, const LpPoolAttrs& attrs = {});

// Adaptive pooling: windows cover the image evenly; the i-th of m over n elements is [⌊i·n/m⌋, ⌈(i + 1)·n/m⌉).
Tensor adaptive_max_pool1d(const Tensor& x, const AdaptivePoolAttrs& attrs = {});
Tensor adaptive_max_pool2d(const Tensor& x, const AdaptivePoolAttrs& attrs = {});
Tensor adaptive_max_pool3d(const Tensor& x, const AdaptivePoolAttrs& attrs = {});
Tensor adaptive_avg_pool1d(const Tensor& x, const AdaptivePoolAttrs& attrs = {});
Tensor adaptive_avg_pool2d(const Tensor& x, const AdaptivePoolAttrs& attrs = {});
Tensor adaptive_avg_pool3d(const Tensor& x, const AdaptivePoolAttrs& attrs = {});

// Pooling over all spatial dimensions: [n, c, …] → [n, c, 1, …].
Tensor global_max_pool(const Tensor& x);
Tensor global_avg_pool(const Tensor& x);

// |x|ᵉ, and |x|ᵉ with the sign of x. Both are 0 at 0 when e is negative.
Tensor abs_pow(const Tensor& x, double exponent);
Tensor signed_pow(const Tensor& x, double exponent);

}  // namespace starling
