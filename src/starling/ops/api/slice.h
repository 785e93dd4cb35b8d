#pragma once

#include <span>
#include <vector>

#include "starling/ops/def/attrs/slice.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Views. Positions outside the axis are refused, not clamped.
Tensor slice(const Tensor& x, const op::SliceAttrs& attrs);
Tensor slice(const Tensor& x, std::span<const op::SliceAttrs> attrs);  // several axes, one after another
Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t begin, std::int64_t size);
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);                  // drops the axis
std::vector<Tensor> split(const Tensor& x, std::int64_t count, std::int64_t axis = 0);  // equal pieces
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, std::int64_t axis = 0);
std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis = 0);

}  // namespace starling
