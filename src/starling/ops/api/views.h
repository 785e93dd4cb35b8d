#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct AxesAttrs {
  Shape axes{};
  static AttrFields fields() { return {field("axes", &AxesAttrs::axes)}; }
};
struct DiagonalAttrs {
  std::int64_t offset = 0;  // above the main diagonal; negative: below
  std::int64_t axis1 = -2;
  std::int64_t axis2 = -1;
  static AttrFields fields() {
    return {field("offset", &DiagonalAttrs::offset), field("axis1", &DiagonalAttrs::axis1),
            field("axis2", &DiagonalAttrs::axis2)};
  }
};

// Views: no copies.
Tensor squeeze(const Tensor& x, const Shape& axes = {});  // drops these axes of size 1; none: all of size 1
Tensor unsqueeze(const Tensor& x, const Shape& axes);     // inserts axes of size 1 at these positions of the result
Tensor permute(const Tensor& x, const Shape& order);      // alias of transpose
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);
Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to);
Tensor expand(const Tensor& x, const Shape& shape);                 // broadcast_to; -1 keeps a size
Tensor diagonal(const Tensor& x, const DiagonalAttrs& attrs = {});  // of two axes, as the last axis of the result

// Copy of x's last axis onto a diagonal of two new, square axes; zeros elsewhere.
Tensor diag_embed(const Tensor& x, const DiagonalAttrs& attrs = {});

// Memory positions of a diagonal's elements: `count` of them from `begin`, `stride` apart.
struct DiagonalLine {
  std::int64_t begin = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
};
DiagonalLine diagonal_line(const DiagonalAttrs& attrs, const Shape& shape, const Shape& strides, const char* who);

}  // namespace starling
