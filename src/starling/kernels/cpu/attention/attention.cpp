#include "starling/kernels/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/attention/attention_blocks.h"
#include "starling/kernels/cpu/gemm/gemm_blocks.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/attention/attention.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/attention/attention_rows-inl.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"
#include "starling/kernels/cpu/gemm/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace attention_simd {

using gemm_simd::gemm_rows;
using gemm_simd::kTileVectors;
using gemm_simd::TileAccess;

constexpr std::int64_t kPanel = kTileVectors * kLanes;

struct Rows {
  const float* at;
  std::int64_t ld;
};

int vectors_of(std::int64_t cols) { return static_cast<int>((std::min(kPanel, cols) + kLanes - 1) / kLanes); }

// Panels [d, kPanel] of the transpose of rows [n, d], zero beyond n.
void pack_panels(Rows from, std::int64_t n, std::int64_t d, float* to) {
  for (std::int64_t j = 0; j < n; j += kPanel, to += d * kPanel)
    gemm_simd::pack_transposed(from.at + j * from.ld, from.ld, d, std::min(kPanel, n - j), kPanel, to);
}

Rows rows_of(const AttentionShape& s, const float* operand, const Shape& strides, std::int64_t entry) {
  return {operand + s.entry_at(strides, entry), s.row_stride(strides)};
}

// Copy whose rows are whole vectors, or the matrix itself if they already are.
Rows padded_rows(Rows from, std::int64_t n, std::int64_t d, float*& scratch) {
  const std::int64_t ld = attention_padded(d);
  if (ld == d) return from;
  float* to = scratch;
  scratch += n * ld;
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy_n(from.at + i * from.ld, d, to + i * ld);
    std::fill_n(to + i * ld + d, ld - d, 0.0F);
  }
  return {to, ld};
}

// One block of queries against one block of keys; `cols` is the number of keys that its last row sees.
struct Block {
  std::int64_t query, rows;
  std::int64_t key, cols;
  bool causal;

  // Calls f(first row, rows, columns) for groups of rows that see the same keys, rounded up to whole groups.
  template <class F>
  void each_group(const F& f) const {
    if (!causal || query >= key + cols) return f(std::int64_t{0}, rows, cols);
    for (std::int64_t r = 0; r < rows; r += kCausalRows) {
      const std::int64_t n = std::min(kCausalRows, rows - r);
      const std::int64_t seen = std::clamp<std::int64_t>(query + r + kCausalRows - key, 0, cols);
      if (seen > 0) f(r, n, seen);
    }
  }
  // Calls f(first key, keys, first row) for groups of keys that are visible from the same row on.
  template <class F>
  void each_key_group(const F& f) const {
    const std::int64_t all = causal ? std::clamp<std::int64_t>(query + kCausalRows - key, 0, cols) : cols;
    if (all > 0) f(std::int64_t{0}, all, std::int64_t{0});
    for (std::int64_t c = all; c < cols; c += kCausalRows) f(c, std::min(kCausalRows, cols - c), key + c - query);
  }
};

// scores[rows, cols] = a[rows, d] · panels[d, cols]
void products(const Block& b, Rows a, std::int64_t d, const float* panels, float* scores) {
  for (std::int64_t c = 0; c < b.cols; c += kPanel, panels += d * kPanel) {
    b.each_group([&](std::int64_t r, std::int64_t rows, std::int64_t cols) {
      if (c < cols)
        gemm_rows<float>(rows, vectors_of(cols - c), TileAccess::kAlongK, d, {a.at + r * a.ld, a.ld},
                         {panels, kPanel, nullptr}, scores + r * kScoreStride + c, kScoreStride, {});
    });
  }
}

// out[rows, width] += scores[rows, cols] · v[cols, width]
void add_rows(const Block& b, const float* scores, Rows v, std::int64_t width, float* out) {
  for (std::int64_t c = 0; c < width; c += kPanel) {
    b.each_group([&](std::int64_t r, std::int64_t rows, std::int64_t cols) {
      gemm_rows<float>(rows, vectors_of(width - c), TileAccess::kAlongK, cols,
                       {scores + r * kScoreStride, kScoreStride}, {v.at + c, v.ld, nullptr}, out + r * width + c, width,
                       {.accumulate = true});
    });
  }
}

// out[cols, width] += scores[rows, cols]ᵀ · v[rows, width]
void add_columns(const Block& b, const float* scores, Rows v, std::int64_t width, float* out) {
  for (std::int64_t c = 0; c < width; c += kPanel) {
    b.each_key_group([&](std::int64_t key, std::int64_t keys, std::int64_t row) {
      gemm_rows<float>(keys, vectors_of(width - c), TileAccess::kAlongRows, b.rows - row,
                       {scores + row * kScoreStride + key, kScoreStride}, {v.at + row * v.ld + c, v.ld, nullptr},
                       out + key * width + c, width, {.accumulate = true});
    });
  }
}

// Turns scores into unnormalised probabilities, with the running largest score and sum of each query; y is rescaled
// when the largest grows.
void soften(const Block& b, const AttentionShape& s, const void* mask, std::int64_t mask_at, float* scores,
            float* largest, float* sums, float* y, std::int64_t width) {
  b.each_group([&](std::int64_t r0, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t r = r0; r < r0 + rows; ++r) {
      float* row = scores + r * kScoreStride;
      const std::int64_t n = std::clamp<std::int64_t>(s.seen(b.query + r) - b.key, 0, cols);
      std::fill(row + n, row + cols, 0.0F);
      if (n == 0) continue;
      const std::int64_t mask_row =
          s.mask == AttentionShape::Mask::none ? 0 : mask_at + (b.query + r) * s.mask_row_stride();
      finish_scores(s, mask, mask_row, b.key, row, n);
      const float before = largest[r], now = std::max(before, row_max(row, n));
      if (std::isinf(now) && now < 0) {
        // NaN check: the largest score does not show NaNs, and a row with one must not be taken for one that sees no
        // key.
        if (std::any_of(row, row + n, [](float x) { return std::isnan(x); }))
          sums[r] = std::numeric_limits<float>::quiet_NaN();
        std::fill(row, row + n, 0.0F);
        continue;
      }
      if (now > before) {
        const float shrink = std::exp(before - now);
        sums[r] *= shrink;
        if (b.key > 0) row_map(y + r * width, y + r * width, y + r * width, width, ScaleRow<float>{shrink});
        largest[r] = now;
      }
      sums[r] += row_exp_sum(row, row, now, n);
    }
  });
}

void forward_entry(const AttentionForward& f, std::int64_t entry, float* scratch) {
  const AttentionShape& s = f.shape;
  const AttentionBuffers sizes = AttentionBuffers::forward(s);
  float* keys_t = scratch;
  scratch += attention_padded(sizes.keys_t);
  float* scores = scratch;
  scratch += sizes.scores;
  float* y = scratch;
  scratch += sizes.y;
  pack_panels(rows_of(s, f.k, s.k_strides, entry), s.keys, s.d, keys_t);
  const Rows v = padded_rows(rows_of(s, f.v, s.v_strides, entry), s.keys, s.dv, scratch);
  const Rows queries = rows_of(s, f.q, s.q_strides, entry);
  const std::int64_t mask_at = s.mask == AttentionShape::Mask::none ? 0 : s.mask_at(entry);
  for (std::int64_t i = 0; i < s.queries; i += kQueryBlock) {
    const std::int64_t rows = std::min(kQueryBlock, s.queries - i), seen = s.seen(i + rows - 1);
    const Rows q{queries.at + i * queries.ld, queries.ld};
    float largest[kQueryBlock], sums[kQueryBlock] = {};
    std::fill_n(largest, kQueryBlock, -std::numeric_limits<float>::infinity());
    std::fill_n(y, rows * sizes.dv, 0.0F);
    for (std::int64_t key = 0; key < seen; key += kKeyBlock) {
      const Block b{i, rows, key, std::min(kKeyBlock, seen - key), s.causal};
      products(b, q, s.d, keys_t + key * s.d, scores);
      soften(b, s, f.mask, mask_at, scores, largest, sums, y, sizes.dv);
      add_rows(b, scores, {v.at + key * v.ld, v.ld}, sizes.dv, y);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = entry * s.queries + i + r;
      const float inverse = sums[r] > 0 || std::isnan(sums[r]) ? 1 / sums[r] : 0;
      row_map(y + r * sizes.dv, y + r * sizes.dv, f.y + row * s.dv, s.dv, ScaleRow<float>{inverse});
      f.lse[row] = sums[r] == 0 ? 0 : largest[r] + std::log(sums[r]);
    }
  }
}

// Turns scores into probabilities and inner products into gradients of the scores, 0 where a key is masked.
void differentiate(const Block& b, const AttentionBackward& f, std::int64_t entry, std::int64_t mask_at, float* scores,
                   float* inner, const float* delta) {
  const AttentionShape& s = f.shape;
  const auto scale = static_cast<float>(s.scale);
  b.each_group([&](std::int64_t r0, std::int64_t rows, std::int64_t cols) {
    for (std::int64_t r = r0; r < r0 + rows; ++r) {
      const std::int64_t i = b.query + r, n = std::clamp<std::int64_t>(s.seen(i) - b.key, 0, cols);
      float *row = scores + r * kScoreStride, *in = inner + r * kScoreStride;
      const std::int64_t mask_row = s.mask == AttentionShape::Mask::none ? 0 : mask_at + i * s.mask_row_stride();
      finish_scores(s, f.mask, mask_row, b.key, row, n);
      backward_row(row, in, n, f.lse[entry * s.queries + i], delta[i], scale);
      std::fill(row + n, row + cols, 0.0F);
      std::fill(in + n, in + cols, 0.0F);
    }
  });
}

void copy_rows(const float* from, std::int64_t ld, std::int64_t n, std::int64_t d, float* to) {
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(from + i * ld, d, to + i * d);
}

void backward_entry(const AttentionBackward& f, std::int64_t entry, float* scratch) {
  const AttentionShape& s = f.shape;
  const AttentionBuffers sizes = AttentionBuffers::backward(s);
  const auto take = [&scratch](std::int64_t n) {
    float* at = scratch;
    scratch += attention_padded(n);
    return at;
  };
  float *keys_t = take(sizes.keys_t), *values_t = take(sizes.values_t), *scores = take(sizes.scores),
        *inner = take(sizes.inner), *dq = take(sizes.dq), *dk = take(sizes.dk), *dv = take(sizes.dv_block),
        *delta = take(sizes.rows);
  const float* y_rows = f.y + entry * s.queries * s.dv;
  const Rows dy_rows = rows_of(s, f.dy, s.dy_strides, entry), k_rows = rows_of(s, f.k, s.k_strides, entry),
             v_rows = rows_of(s, f.v, s.v_strides, entry);
  const Rows q = padded_rows(rows_of(s, f.q, s.q_strides, entry), s.queries, s.d, scratch);
  const Rows k = padded_rows(k_rows, s.keys, s.d, scratch);
  const Rows dy = padded_rows(dy_rows, s.queries, s.dv, scratch);
  const std::int64_t mask_at = s.mask == AttentionShape::Mask::none ? 0 : s.mask_at(entry);
  for (std::int64_t i = 0; i < s.queries; ++i)
    delta[i] = row_sum(dy_rows.at + i * dy_rows.ld, y_rows + i * s.dv, s.dv, Times()) - f.dlse[entry * s.queries + i];
  std::fill_n(dq, s.queries * sizes.d, 0.0F);
  for (std::int64_t key = 0; key < s.keys; key += kKeyBlock) {
    const std::int64_t keys = std::min(kKeyBlock, s.keys - key), first = entry * s.keys + key;
    pack_panels({k_rows.at + key * k_rows.ld, k_rows.ld}, keys, s.d, keys_t);
    pack_panels({v_rows.at + key * v_rows.ld, v_rows.ld}, keys, s.dv, values_t);
    std::fill_n(dk, keys * sizes.d, 0.0F);
    std::fill_n(dv, keys * sizes.dv, 0.0F);
    for (std::int64_t i = 0; i < s.queries; i += kQueryBlock) {
      const std::int64_t rows = std::min(kQueryBlock, s.queries - i);
      const Block b{i, rows, key, std::clamp<std::int64_t>(s.seen(i + rows - 1) - key, 0, keys), s.causal};
      if (b.cols == 0) continue;
      const Rows q_block{q.at + i * q.ld, q.ld}, dy_block{dy.at + i * dy.ld, dy.ld};
      products(b, q_block, s.d, keys_t, scores);
      products(b, dy_block, s.dv, values_t, inner);
      differentiate(b, f, entry, mask_at, scores, inner, delta);
      add_columns(b, scores, dy_block, sizes.dv, dv);
      add_columns(b, inner, q_block, sizes.d, dk);
      add_rows(b, inner, {k.at + key * k.ld, k.ld}, sizes.d, dq + i * sizes.d);
    }
    copy_rows(dk, sizes.d, keys, s.d, f.dk + first * s.d);
    copy_rows(dv, sizes.dv, keys, s.dv, f.dv + first * s.dv);
  }
  copy_rows(dq, sizes.d, s.queries, s.d, f.dq + entry * s.queries * s.d);
}

}  // namespace attention_simd

void attention_forward_entry(const AttentionForward& job, std::int64_t entry, float* scratch) {
  attention_simd::forward_entry(job, entry, scratch);
}
void attention_backward_entry(const AttentionBackward& job, std::int64_t entry, float* scratch) {
  attention_simd::backward_entry(job, entry, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

HWY_EXPORT(attention_forward_entry);
HWY_EXPORT(attention_backward_entry);

template <class Job>
void share_entries(const Job& job, void (*run)(const Job&, std::int64_t, float*), std::int64_t floats, void* scratch,
                   int threads) {
  const std::int64_t batch = job.shape.batch;
  if (batch == 0) return;
  parallel_run(threads, [&](int thread) {
    float* own = static_cast<float*>(scratch) + floats * thread;
    for (std::int64_t i = batch * thread / threads; i < batch * (thread + 1) / threads; ++i) run(job, i, own);
  });
}

}  // namespace

int attention_threads(const AttentionShape& s, int threads) {
  const double work = static_cast<double>(s.batch * s.queries) * static_cast<double>(s.keys) *
                      static_cast<double>(s.d + s.dv) / static_cast<double>(kWorkPerThread);
  const double most = std::min(work, static_cast<double>(s.batch));
  return static_cast<int>(std::clamp(most, 1.0, static_cast<double>(threads)));
}

std::size_t attention_forward_scratch(const AttentionShape& s, int threads) {
  return static_cast<std::size_t>(AttentionBuffers::forward(s).total() * threads) * sizeof(float);
}
std::size_t attention_backward_scratch(const AttentionShape& s, int threads) {
  return static_cast<std::size_t>(AttentionBuffers::backward(s).total() * threads) * sizeof(float);
}

void attention_forward(const AttentionForward& job, void* scratch, int threads) {
  share_entries<AttentionForward>(job, HWY_DYNAMIC_DISPATCH(attention_forward_entry),
                                  AttentionBuffers::forward(job.shape).total(), scratch, threads);
}
void attention_backward(const AttentionBackward& job, void* scratch, int threads) {
  share_entries<AttentionBackward>(job, HWY_DYNAMIC_DISPATCH(attention_backward_entry),
                                   AttentionBuffers::backward(job.shape).total(), scratch, threads);
}

}  // namespace starling::kernels
#endif
