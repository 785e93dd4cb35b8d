#pragma once

#include <span>

#include "starling/ops/api/shape_ops.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Indexing by tensors. Indices are i64 (i32 is converted); one out of range is an error naming its position and value.
// gather, scatter, scatter_add, index_select, index_add and one_hot take indices in [0, size); take, index_get and
// index_put also negative ones, which count from the end.
//
// Duplicate indices: replacing writes apply in element order, so the last one wins (and it alone gets a gradient);
// accumulating writes add in element order, for any number of threads.

// y[i][j][k] = x[index[i][j][k]][j][k] for axis 0. index has x's rank and is no larger than x except along the axis.
Tensor gather(const Tensor& x, const Tensor& index, std::int64_t axis);
// x with y[index[i][j][k]][j][k] = src[i][j][k] for axis 0. src is at least as large as index; the rest of it is not
// read.
Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis);
Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis);

// Elements at `index` (rank 1) of one axis; x with src added there.
Tensor index_select(const Tensor& x, const Tensor& index, std::int64_t axis = 0);
Tensor index_add(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis = 0);

// Elements of the flattened x; the result has the shape of index.
Tensor take(const Tensor& x, const Tensor& index);

// x[i, j, …] for index tensors of the leading axes, broadcast together: [index shape..., other axes...].
Tensor index_get(const Tensor& x, std::span<const Tensor> indices);
// x with values (broadcast) written or added there.
Tensor index_put(const Tensor& x, std::span<const Tensor> indices, const Tensor& values, bool accumulate = false);

// One-hot encoding along a new last axis.
Tensor one_hot(const Tensor& index, std::int64_t classes, DType dtype = DType::i64);

// Indices of all elements other than 0, in row-major order: i64[count, rank]. Eager only.
Tensor nonzero(const Tensor& x, SourceLocation where = SourceLocation::current());

}  // namespace starling
