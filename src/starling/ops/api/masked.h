#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Masks are bool and are broadcast against x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

// Elements where the mask holds, in row-major order, as a vector. Eager only: its length depends on values.
Tensor masked_select(const Tensor& x, const Tensor& mask, SourceLocation where = SourceLocation::current());

// x with the elements of source written, in order, where the mask holds; source has at least that many.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

// masked_select with a fixed length: padded with zeros; selecting more is an error.
Tensor masked_gather(const Tensor& x, const Tensor& mask, std::int64_t size);

}  // namespace starling
