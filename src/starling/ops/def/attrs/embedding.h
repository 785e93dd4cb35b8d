#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct EmbeddingAttrs {
  std::int64_t padding = -1;  // row without gradient; -1: none
  bool sparse = false;        // row-sparse gradient of the weight
  static AttrFields fields() {
    return {field("padding", &EmbeddingAttrs::padding), field("sparse", &EmbeddingAttrs::sparse)};
  }
};
struct EmbeddingBackwardAttrs {
  std::int64_t rows = 0;  // rows of the weight
  std::int64_t padding = -1;
  static AttrFields fields() {
    return {field("rows", &EmbeddingBackwardAttrs::rows), field("padding", &EmbeddingBackwardAttrs::padding)};
  }
};
struct EmbeddingBagAttrs {
  bool mean = false;          // mean instead of sum
  std::int64_t padding = -1;  // row that is skipped and not counted
  bool sparse = false;
  static AttrFields fields() {
    return {field("mean", &EmbeddingBagAttrs::mean), field("padding", &EmbeddingBagAttrs::padding),
            field("sparse", &EmbeddingBagAttrs::sparse)};
  }
};
struct BagAttrs {
  bool mean = false;
  std::int64_t padding = -1;
  static AttrFields fields() { return {field("mean", &BagAttrs::mean), field("padding", &BagAttrs::padding)}; }
};
struct BagPlaceAttrs {
  std::int64_t entries = 0;
  static AttrFields fields() { return {field("entries", &BagPlaceAttrs::entries)}; }
};

// Operands (x, indices, offsets?, scale?) of a bag op: indices i64[b, n] are bags by row, i64[n] are cut by offsets
// i64[b]; scale has the shape of indices and x's dtype. Operand numbers are -1 if missing.
struct BagOperands {
  std::int64_t bags = 0;
  std::int64_t entries = 0;
  int offsets = -1;
  int scale = -1;
};

// Adjoint of embedding: dy […, d…] added by index into [rows, d…], in the order of the indices for any number of
// threads.
Tensor embedding_backward(const Tensor& dy, const Tensor& indices, const EmbeddingBackwardAttrs& attrs);

}  // namespace starling::op
