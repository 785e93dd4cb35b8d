#pragma once

#include <initializer_list>
#include <span>

#include "starling/ops/api/slice.h"
#include "starling/ops/api/views.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Shape ops: views if the strides allow it, copies otherwise.
Tensor reshape(const Tensor& x, const Shape& shape);  // one size may be -1
Tensor flatten(const Tensor& x, int from = 1);
Tensor transpose(const Tensor& x, const Shape& order = {});
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor concat(std::span<const Tensor> xs, std::int64_t axis = 0);
inline Tensor concat(std::initializer_list<Tensor> xs, std::int64_t axis = 0) {
  return concat(std::span(xs.begin(), xs.size()), axis);
}
Tensor stack(std::span<const Tensor> xs, std::int64_t axis = 0);  // along a new axis
inline Tensor stack(std::initializer_list<Tensor> xs, std::int64_t axis = 0) {
  return stack(std::span(xs.begin(), xs.size()), axis);
}

}  // namespace starling
