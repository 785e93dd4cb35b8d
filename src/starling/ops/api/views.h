#pragma once

#include "starling/ops/def/attrs/views.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Views: no copies.
Tensor squeeze(const Tensor& x, const Shape& axes = {});  // drops these axes of size 1; none: all of size 1
Tensor unsqueeze(const Tensor& x, const Shape& axes);     // inserts axes of size 1 at these positions of the result
Tensor permute(const Tensor& x, const Shape& order);      // alias of transpose
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);
Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to);
Tensor expand(const Tensor& x, const Shape& shape);                     // broadcast_to; -1 keeps a size
Tensor diagonal(const Tensor& x, const op::DiagonalAttrs& attrs = {});  // of two axes, as the last axis of the result

// Copy of x's last axis onto a diagonal of two new, square axes; zeros elsewhere.
Tensor diag_embed(const Tensor& x, const op::DiagonalAttrs& attrs = {});

}  // namespace starling
