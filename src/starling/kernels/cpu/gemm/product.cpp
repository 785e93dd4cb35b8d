#include "starling/kernels/cpu/gemm/product.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "starling/base/error.h"
#include "starling/kernels/cpu/gemm/gemm_blocks.h"
#include "starling/kernels/strides.h"

namespace starling::kernels {

std::optional<MatrixArg> matrix_arg(const ArgDesc& arg, bool trans) {
  const int rank = arg.shape.rank();
  MatrixArg matrix{arg.shape[rank - 2], arg.shape[rank - 1], false, {}, {}};
  Shape shape = arg.shape, strides = arg.strides;
  if (!arg.contiguous()) {
    std::swap(shape[rank - 1], shape[rank - 2]);
    std::swap(strides[rank - 1], strides[rank - 2]);
    if (!is_contiguous(shape, strides)) return std::nullopt;
    matrix.trans = true;
  }
  if (trans) {
    std::swap(matrix.rows, matrix.cols);
    matrix.trans = !matrix.trans;
  }
  for (int i = 0; i < rank - 2; ++i) {
    matrix.batch.push_back(arg.shape[i]);
    matrix.batch_strides.push_back(arg.strides[i]);
  }
  return matrix;
}

namespace {

// Threads that share whole products, which waits less than sharing out each of them; 1 if products are too few.
int batch_threads(std::int64_t count, const GemmShape& shape, int threads) {
  if (threads == 1 || count < threads) return 1;
  const double work = static_cast<double>(count) * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                      static_cast<double>(shape.k);
  return static_cast<int>(std::clamp(work / static_cast<double>(kWorkPerThread), 1.0, static_cast<double>(threads)));
}

}  // namespace

BatchedProduct plan_batches(const GemmShape& shape, std::int64_t count, int threads, std::size_t element_bytes) {
  BatchedProduct product;
  product.k = shape.k;
  product.results = shape.m * shape.n;
  product.batch_threads = batch_threads(count, shape, threads);
  product.plan = plan_gemm(shape, product.batch_threads > 1 ? 1 : threads, element_bytes);
  return product;
}

std::optional<BatchedProduct> plan_product(const ArgDesc& a_arg, const ArgDesc& b_arg, bool trans_a, bool trans_b,
                                           int threads) {
  const auto a = matrix_arg(a_arg, trans_a), b = matrix_arg(b_arg, trans_b);
  if (!a || !b) return std::nullopt;
  Shape batch = broadcast_shapes(a->batch, b->batch, "matmul");
  GemmShape shape{.m = a->rows, .n = b->cols, .k = a->cols, .trans_a = a->trans, .trans_b = b->trans};
  // Products with one common matrix b are joined: their rows are the rows of one product.
  if (b->batch.numel() == 1 && !a->trans && a->batch.numel() == batch.numel()) {
    shape.m *= batch.numel();
    batch = {};
  }
  BatchedProduct product = plan_batches(shape, batch.numel(), threads, size_of(a_arg.dtype));
  product.batch = batch;
  if (batch.empty()) return product;
  product.a_strides = broadcast_strides(a->batch, a->batch_strides, batch);
  product.b_strides = broadcast_strides(b->batch, b->batch_strides, batch);
  product.c_strides = contiguous_strides(batch);
  for (int i = 0; i < batch.rank(); ++i) product.c_strides[i] *= product.results;
  return product;
}

GemmActivation gemm_activation(Symbol name) {
  if (name.str() == "relu") return GemmActivation::kRelu;
  if (name.str() == "tanh") return GemmActivation::kTanh;
  if (name.str() == "sigmoid") return GemmActivation::kSigmoid;
  check(name.empty(), "[activation] expected relu, tanh, sigmoid or none, got '{}'", name.str());
  return GemmActivation::kNone;
}

namespace {

double activated(GemmActivation activation, double x) {
  switch (activation) {
    case GemmActivation::kNone: return x;
    case GemmActivation::kRelu: return x > 0 || std::isnan(x) ? x : 0.0;
    case GemmActivation::kTanh: return std::tanh(x);
    case GemmActivation::kSigmoid: return 1 / (1 + std::exp(-x));
  }
  return x;
}

double derivative(GemmActivation activation, double y) {
  switch (activation) {
    case GemmActivation::kNone: return 1;
    case GemmActivation::kRelu: return y > 0 ? 1 : 0;
    case GemmActivation::kTanh: return 1 - y * y;
    case GemmActivation::kSigmoid: return y * (1 - y);
  }
  return 1;
}

}  // namespace

void finish_rows(GemmActivation activation, const double* bias, double* c, std::int64_t rows, std::int64_t n) {
  if (!bias && activation == GemmActivation::kNone) return;
  for (std::int64_t r = 0; r < rows; ++r, c += n) {
    for (std::int64_t j = 0; j < n; ++j) c[j] = activated(activation, c[j] + (bias ? bias[j] : 0.0));
  }
}

void multiply_derivative(GemmActivation activation, const double* saved, double* c, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) c[i] *= derivative(activation, saved[i]);
}

}  // namespace starling::kernels
