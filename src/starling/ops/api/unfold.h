#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct UnfoldAttrs {
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  static AttrFields fields() {
    return {field("kernel", &UnfoldAttrs::kernel), field("stride", &UnfoldAttrs::stride),
            field("padding", &UnfoldAttrs::padding), field("dilation", &UnfoldAttrs::dilation)};
  }
};
struct FoldAttrs {
  Pair size{1, 1};  // height and width of the result
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  static AttrFields fields() {
    return {field("size", &FoldAttrs::size), field("kernel", &FoldAttrs::kernel), field("stride", &FoldAttrs::stride),
            field("padding", &FoldAttrs::padding), field("dilation", &FoldAttrs::dilation)};
  }
};

// Every window of x [n, c, h, w] as a column: [n, c · kh · kw, windows], windows row by row; zero in the padding.
Tensor unfold(const Tensor& x, const UnfoldAttrs& attrs);

// Adjoint of unfold: columns [n, c · kh · kw, windows] added into their windows of [n, c, size].
Tensor fold(const Tensor& columns, const FoldAttrs& attrs);

}  // namespace starling
