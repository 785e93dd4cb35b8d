#include "starling/kernels/cuda/cudnn/attention_graph.h"

#include <limits>

namespace starling::cuda {
namespace {

using device::Attention;
using Tensor = OperationGraph::Tensor;
using Sizes = OperationGraph::Sizes;

// Leading dimensions as batch and heads.
std::int64_t leading_size(const Attention& a, int dim) {
  const int at = a.rank - 2 + dim;
  return at < 0 ? 1 : a.sizes[at];
}
std::int64_t leading_stride(const Attention& a, const Attention::Rows& rows, int dim) {
  const int at = a.rank - 2 + dim;
  return at < 0 ? leading_stride(a, rows, dim + 1) * leading_size(a, dim + 1) : rows.leading[at];
}

class Builder {
 public:
  Builder(const Attention& a, cudnnDataType_t type, AttentionGraph& made)
      : a_(a),
        type_(type),
        made_(made),
        g_(made.graph),
        b_(leading_size(a, 0)),
        h_(leading_size(a, 1)),
        scores_{b_, h_, a.queries, a.keys} {}

  void forward() {
    const Tensor q = matrix(a_.q, a_.queries, a_.d), kt = transposed(a_.k, a_.keys, a_.d),
                 v = matrix(a_.v, a_.keys, a_.dv), y = matrix(a_.y, a_.queries, a_.dv), lse = row_values();
    const Tensor s = seen(scores(q, kt));
    const Tensor most = g_.between(rows()), sum = g_.between(rows()), p = g_.between(scores_, type_);
    g_.reduce(CUDNN_REDUCE_TENSOR_MAX, s, most);
    const Tensor weights = g_.pointwise(CUDNN_POINTWISE_EXP, g_.pointwise(CUDNN_POINTWISE_SUB, s, most));
    g_.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
    const Tensor log = g_.pointwise(CUDNN_POINTWISE_LOG, sum);
    g_.pointwise(CUDNN_POINTWISE_ADD, most, log, lse);
    g_.pointwise(CUDNN_POINTWISE_DIV, weights, sum, p);
    g_.multiply(p, v, y);
    made_.tensors = {q, kt, v, y, lse};
  }

  void backward() {
    const Tensor q = matrix(a_.q, a_.queries, a_.d), kt = transposed(a_.k, a_.keys, a_.d),
                 vt = transposed(a_.v, a_.keys, a_.dv), y = matrix(a_.y, a_.queries, a_.dv),
                 dy = matrix(a_.dy, a_.queries, a_.dv), lse = row_values(), dq = matrix(a_.dq, a_.queries, a_.d),
                 dk = matrix(a_.dk, a_.keys, a_.d), dv = matrix(a_.dv_rows, a_.keys, a_.dv);
    const Tensor products = g_.pointwise(CUDNN_POINTWISE_MUL, dy, y), sum = g_.between(rows());
    g_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sum);
    const Tensor delta = row_values();
    g_.pointwise(CUDNN_POINTWISE_MUL, sum, g_.number(1), delta);
    const Tensor scale = g_.number(a_.scale);
    const Tensor s = g_.pointwise(CUDNN_POINTWISE_MUL, product(q, kt), scale);
    const Tensor p = g_.pointwise(CUDNN_POINTWISE_EXP, seen(g_.pointwise(CUDNN_POINTWISE_SUB, s, lse)));
    g_.multiply(g_.transpose(p, type_), dy, dv);
    const Tensor dp = g_.pointwise(CUDNN_POINTWISE_SUB, product(dy, vt), delta);
    const Tensor ds = g_.pointwise(CUDNN_POINTWISE_MUL, g_.pointwise(CUDNN_POINTWISE_MUL, dp, p), scale);
    g_.multiply(g_.transpose(ds, type_), q, dk);
    const Sizes sums{b_, h_, a_.queries, a_.d};
    const Tensor k = g_.transpose(kt, type_), dq_sums = g_.tensor(sums, dense(sums), CUDNN_DATA_FLOAT);
    g_.multiply(ds, k, dq_sums);
    g_.pointwise(CUDNN_POINTWISE_IDENTITY, dq_sums, OperationGraph::kNone, dq);
    made_.tensors = {q, kt, vt, y, dy, lse, dq, dk, dv, delta, dq_sums};
    const auto floats = static_cast<std::size_t>(b_ * h_ * a_.queries) * sizeof(float);
    made_.scratch = {floats, floats * static_cast<std::size_t>(a_.d)};
  }

 private:
  static Sizes dense(const Sizes& sizes) { return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}; }
  Sizes rows() const { return {b_, h_, a_.queries, 1}; }
  Tensor row_values() { return g_.tensor(rows(), dense(rows()), CUDNN_DATA_FLOAT); }
  Tensor matrix(const Attention::Rows& at, std::int64_t count, std::int64_t width) {
    return g_.tensor({b_, h_, count, width}, {leading_stride(a_, at, 0), leading_stride(a_, at, 1), at.row, 1}, type_);
  }
  Tensor transposed(const Attention::Rows& at, std::int64_t count, std::int64_t width) {
    return g_.tensor({b_, h_, width, count}, {leading_stride(a_, at, 0), leading_stride(a_, at, 1), 1, at.row}, type_);
  }
  Tensor product(Tensor a, Tensor b) {
    const Tensor result = g_.between(scores_);
    g_.multiply(a, b, result);
    return result;
  }
  Tensor scores(Tensor q, Tensor kt) { return g_.pointwise(CUDNN_POINTWISE_MUL, product(q, kt), g_.number(a_.scale)); }
  // Scores of keys that a query does not see are -inf.
  Tensor seen(Tensor s) {
    if (!a_.causal) return s;
    const Tensor query = g_.between(scores_, CUDNN_DATA_INT32), key = g_.between(scores_, CUDNN_DATA_INT32),
                 is_seen = g_.between(scores_, CUDNN_DATA_BOOLEAN), result = g_.between(scores_);
    g_.index(2, s, query);
    g_.index(3, s, key);
    g_.pointwise(CUDNN_POINTWISE_CMP_GE, query, key, is_seen, OperationGraph::kNone, CUDNN_DATA_BOOLEAN);
    g_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, s, g_.number(-std::numeric_limits<float>::infinity()), result, is_seen);
    return result;
  }

  const Attention& a_;
  cudnnDataType_t type_;
  AttentionGraph& made_;
  OperationGraph& g_;
  std::int64_t b_, h_;
  Sizes scores_;
};

}  // namespace

void describe_attention(AttentionPass pass, const Attention& attention, cudnnDataType_t type, AttentionGraph& made) {
  Builder builder(attention, type, made);
  if (pass == AttentionPass::forward)
    builder.forward();
  else
    builder.backward();
}

}  // namespace starling::cuda
