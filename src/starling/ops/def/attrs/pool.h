#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

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

struct MaxPoolGradAttrs {
  Shape shape{};  // shape of x
  Shape kernel{2};
  Shape stride{};
  Shape padding{0};
  Shape dilation{1};
  bool ceil_mode = false;
  static AttrFields fields() {
    return {field("shape", &MaxPoolGradAttrs::shape),       field("kernel", &MaxPoolGradAttrs::kernel),
            field("stride", &MaxPoolGradAttrs::stride),     field("padding", &MaxPoolGradAttrs::padding),
            field("dilation", &MaxPoolGradAttrs::dilation), field("ceil_mode", &MaxPoolGradAttrs::ceil_mode)};
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

// |x|ᵉ, and |x|ᵉ with the sign of x. Both are 0 at 0 when e is negative.
Tensor abs_pow(const Tensor& x, double exponent);
Tensor signed_pow(const Tensor& x, double exponent);

}  // namespace starling::op
