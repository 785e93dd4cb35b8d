#pragma once

#include "starling/ops/api/state.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Row-sparse tensors: gradients of embeddings, which touch a few rows of a large table. Such a tensor has the dtype and
// shape of the dense one and holds (rows i64[n], values [n, …]); row r is the sum of the values[i] with rows[i] = r.
// Ops see it densified; reading its memory converts it to dense permanently (not thread-safe). Only optimizers and
// gradient accumulation use the pair.
bool is_row_sparse(const Tensor& tensor);
Tensor rows_of(const Tensor& sparse);
Tensor row_values(const Tensor& sparse);

// Row-sparse tensor of shape [v, d…] from values [n, d…] and rows i64[n]. Rows are checked when they are used.
Tensor row_sparse(const Tensor& rows, const Tensor& values, const Shape& shape);

// Dense form; a dense tensor is returned unchanged.
Tensor dense(const Tensor& tensor);

// Row-sparse tensor with every row once, in ascending order. Eager only: its size depends on values.
Tensor coalesce(const Tensor& sparse, SourceLocation where = SourceLocation::current());

}  // namespace starling
