#pragma once

#include <optional>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"
#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/kernels/kernel.h"
#include "starling/ops/def/symbol.h"

namespace starling::kernels {

// Matrix products of strided operands: dense, or dense with the last two dimensions exchanged, which becomes the
// transpose flag of a gemm. Leading dimensions broadcast; products that can be joined are one gemm.
struct MatrixArg {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool trans = false;  // stored [.., cols, rows]
  Shape batch{};
  Shape batch_strides{};  // in elements
};
// nullopt for other strides.
std::optional<MatrixArg> matrix_arg(const ArgDesc& arg, bool trans);

struct BatchedProduct {
  GemmPlan plan;
  std::int64_t k = 0;
  std::int64_t results = 0;  // elements of one product
  Shape batch{};
  Shape a_strides{}, b_strides{}, c_strides{};
  int batch_threads = 1;  // threads that share the products, each product on one thread
  std::size_t scratch_bytes() const { return padded_scratch() * static_cast<std::size_t>(batch_threads); }

  // Calls f(offset of a, offset of b, offset of c, scratch) for every product.
  template <class F>
  void each(void* scratch, F&& f) const {
    const std::int64_t count = batch.numel();
    if (batch_threads == 1) return some(0, count, scratch, f);
    parallel_run(batch_threads, [&](int thread) {
      auto* own = static_cast<std::byte*>(scratch) + padded_scratch() * static_cast<std::size_t>(thread);
      some(count * thread / batch_threads, count * (thread + 1) / batch_threads, own, f);
    });
  }

 private:
  std::size_t padded_scratch() const { return round_up(gemm_scratch_bytes(plan)); }

  template <class F>
  void some(std::int64_t begin, std::int64_t end, void* scratch, F& f) const {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t rest = i, a = 0, b = 0, c = 0;
      for (int d = batch.rank() - 1; d >= 0; --d) {
        const std::int64_t at = rest % batch[d];
        rest /= batch[d];
        a += at * a_strides[d];
        b += at * b_strides[d];
        c += at * c_strides[d];
      }
      f(a, b, c, scratch);
    }
  }
};
// Plans how `count` products of one shape share the threads; the caller sets batch and strides.
BatchedProduct plan_batches(const GemmShape& shape, std::int64_t count, int threads, std::size_t element_bytes);

std::optional<BatchedProduct> plan_product(const ArgDesc& a, const ArgDesc& b, bool trans_a, bool trans_b, int threads);

GemmActivation gemm_activation(Symbol name);

// Epilogue of a product of doubles, as a second pass: c = act(c + bias) by rows of n; c *= act'(saved).
void finish_rows(GemmActivation activation, const double* bias, double* c, std::int64_t rows, std::int64_t n);
void multiply_derivative(GemmActivation activation, const double* saved, double* c, std::int64_t count);

}  // namespace starling::kernels
