#pragma once

#include <optional>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

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
struct BagLayout {
  std::int64_t bags = 0;
  std::int64_t entries = 0;
  int offsets = -1;
  int scale = -1;
};

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = std::nullopt;  // negative: counts from the end
  bool sparse = false;
};
// Rows of weight [v, d…] by index: indices i64[…] → […, d…]. An index outside [0, v) is an error naming its position.
// The row padding_idx is read like any other but gets no gradient. With `sparse` the gradient of the weight is
// row-sparse, with one entry per index; see row_sparse.h.
Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& options = {});

// Adjoint of embedding: dy […, d…] added by index into [rows, d…], in the order of the indices for any number of
// threads.
Tensor embedding_backward(const Tensor& dy, const Tensor& indices, const EmbeddingBackwardAttrs& attrs);

enum class BagMode : std::uint8_t { sum, mean, max };
struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  Tensor offsets{};  // i64[b], for 1-D indices: start of each bag; the first is 0, the last bag ends with the indices
  Tensor per_sample_weights{};                             // shape of indices; factors of the rows, sum only
  std::optional<std::int64_t> padding_idx = std::nullopt;  // rows skipped in their bags
  bool sparse = false;
};
// One row per bag, the sum, mean or maximum of its embeddings: indices i64[b, n], each row a bag, or i64[n] cut by
// offsets → [b, d…]. An empty bag gives zeros.
Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const EmbeddingBagOptions& options = {});

}  // namespace starling
