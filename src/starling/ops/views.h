#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct AxesAttrs {
  Shape axes{};
  static AttrFields fields() { return {field("axes", &AxesAttrs::axes)}; }
};
struct DiagonalAttrs {
  std::int64_t offset = 0;  // above the main diagonal, below it when negative
  std::int64_t axis1 = -2;
  std::int64_t axis2 = -1;
  static AttrFields fields() {
    return {field("offset", &DiagonalAttrs::offset), field("axis1", &DiagonalAttrs::axis1),
            field("axis2", &DiagonalAttrs::axis2)};
  }
};

// Views: nothing is copied.
Tensor squeeze(const Tensor& x, const Shape& axes = {});  // drops these axes, which have size 1; none: all of size 1
Tensor unsqueeze(const Tensor& x, const Shape& axes);     // axes of size 1, at these places of the result
Tensor permute(const Tensor& x, const Shape& order);      // transpose by another name
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b);
Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to);
Tensor expand(const Tensor& x, const Shape& shape);                 // broadcast_to; -1 keeps a size
Tensor diagonal(const Tensor& x, const DiagonalAttrs& attrs = {});  // of two axes, as the last axis of the result

// A copy: zeros but for x's last axis along a diagonal of two new axes, which are square.
Tensor diag_embed(const Tensor& x, const DiagonalAttrs& attrs = {});

// Where the elements of a diagonal lie in a dense or strided tensor: `count` of them from `begin`, `stride` apart.
struct DiagonalLine {
  std::int64_t begin = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
};
DiagonalLine diagonal_line(const DiagonalAttrs& attrs, const Shape& shape, const Shape& strides, const char* who);

}  // namespace starling
