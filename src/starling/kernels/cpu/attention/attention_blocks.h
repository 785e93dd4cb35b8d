#pragma once

#include <algorithm>
#include <cstdint>

#include "starling/kernels/attention_shape.h"

namespace starling::kernels {

// Block sizes of attention, and the buffers in the scratch of one thread. Sizes are padded for the widest vectors, so
// that they hold for every target.
constexpr std::int64_t kQueryBlock = 64;
constexpr std::int64_t kKeyBlock = 256;
// Rows that share one limit under a causal mask: scores above the diagonal are computed only within these.
constexpr std::int64_t kCausalRows = 16;
// Floats between rows of the scores: no power of two, since columns are read too.
constexpr std::int64_t kScoreStride = kKeyBlock + 16;

constexpr std::int64_t attention_padded(std::int64_t n, std::int64_t unit = 16) { return (n + unit - 1) / unit * unit; }

// Floats of each buffer; an operand whose rows are not whole vectors gets a padded copy.
struct AttentionBuffers {
  std::int64_t d, dv;         // padded rows
  std::int64_t keys_t = 0;    // kᵀ in panels
  std::int64_t values_t = 0;  // vᵀ in panels
  std::int64_t q = 0, k = 0, v = 0, dy = 0;
  std::int64_t scores = kQueryBlock * kScoreStride;
  std::int64_t inner = 0;  // dy · vᵀ
  std::int64_t y = 0;
  std::int64_t dq = 0, dk = 0, dv_block = 0;
  std::int64_t rows = 0;  // one number per query

  static AttentionBuffers forward(const AttentionShape& s) {
    AttentionBuffers b{attention_padded(s.d), attention_padded(s.dv)};
    b.keys_t = attention_padded(s.keys, 64) * s.d;
    if (s.dv % 16 != 0) b.v = s.keys * b.dv;
    b.y = kQueryBlock * b.dv;
    return b;
  }
  static AttentionBuffers backward(const AttentionShape& s) {
    AttentionBuffers b{attention_padded(s.d), attention_padded(s.dv)};
    b.keys_t = kKeyBlock * s.d;
    b.values_t = kKeyBlock * s.dv;
    if (s.d % 16 != 0) b.q = s.queries * b.d, b.k = s.keys * b.d;
    if (s.dv % 16 != 0) b.dy = s.queries * b.dv;
    b.inner = b.scores;
    b.dq = s.queries * b.d;
    b.dk = kKeyBlock * b.d;
    b.dv_block = kKeyBlock * b.dv;
    b.rows = attention_padded(s.queries);
    return b;
  }
  std::int64_t total() const {
    return attention_padded(keys_t) + attention_padded(values_t) + q + k + v + dy + scores + inner + y + dq + dk +
           dv_block + rows;
  }
};

}  // namespace starling::kernels
