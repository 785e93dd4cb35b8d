#pragma once

#include <span>

#include "starling/ops/attrs.h"
#include "starling/ops/shape_ops.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Reading and writing at places that are themselves tensors. Indices are i64 (i32 is converted); one out of range is an
// error naming its position and value. gather, scatter, scatter_add, index_select, index_add and one_hot take indices
// in [0, size); take, index_get and index_put also negative ones, which count from the end.
//
// Where several elements go to one place, those that replace win in element order, the last one stays (and it alone
// gets a gradient); those that add are added in element order, whatever the number of threads.

struct IndexPutAttrs {
  bool accumulate = false;
  static AttrFields fields() { return {field("accumulate", &IndexPutAttrs::accumulate)}; }
};
struct OneHotAttrs {
  std::int64_t classes = 1;
  DType dtype = DType::i64;
  static AttrFields fields() { return {field("classes", &OneHotAttrs::classes), field("dtype", &OneHotAttrs::dtype)}; }
};

// y[i][j][k] = x[index[i][j][k]][j][k] for axis 0. index has x's rank and is nowhere larger but along the axis.
Tensor gather(const Tensor& x, const Tensor& index, std::int64_t axis);
// x with y[index[i][j][k]][j][k] = src[i][j][k] for axis 0. src is at least as large as index; the rest of it is not
// read.
Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis);
Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis);

// The places `index` (rank 1) of one axis; x with src added at such places.
Tensor index_select(const Tensor& x, const Tensor& index, std::int64_t axis = 0);
Tensor index_add(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis = 0);

// Elements of x in row-major order; the result has the shape of index.
Tensor take(const Tensor& x, const Tensor& index);

// x[i, j, …] for index tensors of the leading axes, which are broadcast together: [index shape..., other axes...].
Tensor index_get(const Tensor& x, std::span<const Tensor> indices);
// x with values (broadcast) put there, or added.
Tensor index_put(const Tensor& x, std::span<const Tensor> indices, const Tensor& values, bool accumulate = false);

// One more axis: 1 at the index, else 0.
Tensor one_hot(const Tensor& index, std::int64_t classes, DType dtype = DType::i64);

// The places of all elements other than 0, in row-major order: i64[count, rank]. Eager only.
Tensor nonzero(const Tensor& x, SourceLocation where = SourceLocation::current());

}  // namespace starling
