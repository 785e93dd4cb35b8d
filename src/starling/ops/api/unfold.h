#pragma once

#include "starling/ops/def/attrs/unfold.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Every window of x [n, c, h, w] as a column: [n, c · kh · kw, windows], windows row by row; zero in the padding.
Tensor unfold(const Tensor& x, const op::UnfoldAttrs& attrs);

// Adjoint of unfold: columns [n, c · kh · kw, windows] added into their windows of [n, c, size].
Tensor fold(const Tensor& columns, const op::FoldAttrs& attrs);

}  // namespace starling
