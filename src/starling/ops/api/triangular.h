#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Lower (tril) or upper (triu) triangle of the last two axes, including the given diagonal; zeros elsewhere.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace starling
