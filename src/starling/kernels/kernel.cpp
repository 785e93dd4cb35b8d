#include "starling/kernels/kernel.h"

#include <utility>

namespace starling::kernels {

ArgDesc dense(const TensorType& type) { return {type.dtype, type.shape, contiguous_strides(type.shape)}; }

namespace {

bool is_transposed(const ArgDesc& arg) {
  const int rank = arg.shape.rank();
  if (rank < 2) return false;
  Shape shape = arg.shape;
  Shape strides = arg.strides;
  std::swap(shape[rank - 1], shape[rank - 2]);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return is_contiguous(shape, strides);
}

}  // namespace

bool accepts(Accepts what, const ArgDesc& arg) {
  if (what == Accepts::strided || arg.contiguous()) return true;
  return what == Accepts::transposed && is_transposed(arg);
}

}  // namespace starling::kernels
