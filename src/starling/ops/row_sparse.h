#pragma once

#include "starling/ops/state.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Row-sparse tensors: gradients of embeddings, which touch a few rows of a large table. Such a tensor has the dtype and
// shape of the dense one and holds (rows i64[n], values [n, …]); row r of it is the sum of the values[i] with
// rows[i] = r. Every op sees it densified; reading its memory makes it dense for good (not from two threads at once).
// Optimizers, and sums of gradients, know the pair.
bool is_row_sparse(const Tensor& tensor);
Tensor rows_of(const Tensor& sparse);
Tensor row_values(const Tensor& sparse);

// values [n, d…] and rows i64[n] of a tensor of the given shape [v, d…]. Rows are checked when they are used.
Tensor row_sparse(const Tensor& rows, const Tensor& values, const Shape& shape);

// The dense form; a dense tensor itself.
Tensor dense(const Tensor& tensor);

// The same with every row once, in ascending order. Its size depends on values: not while tracing.
Tensor coalesce(const Tensor& sparse, SourceLocation where = SourceLocation::current());

// a + b. Two row-sparse tensors give one: the entries of both, coalesced when they are many; while tracing, and where
// that would hold no less than the dense form, dense. Anything else is dense.
Tensor add_gradients(const Tensor& a, const Tensor& b);

// sgd_update of the rows that occur, with the sums of their values as gradients: (w, v, rows, values, lr) → (w', v').
// Rows that do not occur keep weight and velocity: momentum and weight decay are lazy.
void sgd_update_rows(const Tensor& w, const Tensor& v, const Tensor& rows, const Tensor& values, const Tensor& lr,
                     const SgdAttrs& attrs);

}  // namespace starling
