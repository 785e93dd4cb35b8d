#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

struct AttentionOptions {
  Tensor mask = {};  // bool (true: visible) or floats added to the scores; broadcast to [.., l, s]
  bool causal = false;
  double scale = 0;
  double dropout = 0;  // dropout probability of the attention weights
};

// softmax(q · kᵀ · scale + mask) · v for q [.., l, d], k [.., s, d], v [.., s, dv] with equal leading sizes → [.., l,
// dv]. A query that sees no key gives zeros. Scores are never stored as a whole, except with dropout.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

// Projections of a multi-head attention; biases may be undefined.
struct MultiHeadWeights {
  Tensor w_q, w_k, w_v;  // [heads · d, in]
  Tensor w_out;          // [out, heads · d]
  Tensor b_q, b_k, b_v, b_out;
};

// Projects, splits into heads, attends and projects back: query [n, l, in], key and value [n, s, in] → [n, l, out]. A
// mask is broadcast to [n, heads, l, s].
Tensor multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                            const MultiHeadWeights& weights, std::int64_t heads, const AttentionOptions& options = {});

}  // namespace starling
