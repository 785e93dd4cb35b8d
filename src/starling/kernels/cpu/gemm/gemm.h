#pragma once

#include <cstddef>
#include <cstdint>

namespace starling::kernels {

// Matrix products on raw memory: C[m,n] = op(A)[m,k] * op(B)[k,n], row-major, with an epilogue while the tile is in
// cache. Allocates nothing: the caller provides scratch. Threads come from base/parallel.h. The same shape and number
// of threads give the same bits on every run. Operands and C must not overlap.

enum class GemmActivation : std::uint8_t { kNone, kRelu, kTanh, kSigmoid };

// SGD epilogue: v = momentum * v + (g + weight_decay * w); w -= *learning_rate * v, where g is the product. Both arrays
// are stored like C (leading dimension ldc). Without a velocity: w -= *learning_rate * (g + weight_decay * w).
struct GemmSgd {
  float* weights = nullptr;
  float* velocity = nullptr;
  const float* learning_rate = nullptr;  // read at run time, so that a schedule needs no new plan
  float momentum = 0;
  float weight_decay = 0;
};

// Epilogue, applied in this order: + C (accumulate), + bias, activation, * derivative, then stored to C or passed to
// sgd.
struct GemmEpilogue {
  bool accumulate = false;
  const float* bias_n = nullptr;  // [n], added to every row
  const float* bias_m = nullptr;  // [m], added to every column
  GemmActivation activation = GemmActivation::kNone;
  // Backward through an activation: multiplies by its derivative, computed from the saved forward output [m,n].
  GemmActivation derivative = GemmActivation::kNone;
  const float* saved_output = nullptr;
  std::int64_t ld_saved = 0;
  const GemmSgd* sgd = nullptr;  // if set, C is not written (it may be null) and accumulate must be off
};

// Operand shapes: A is [m,k] (or [k,m] when trans_a), B is [k,n] (or [n,k] when trans_b). Leading dimensions are row
// strides in elements; 0 means dense.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool trans_a = false;
  bool trans_b = false;
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  bool b_padded = false;  // rows of B [k,n] may be read up to the next multiple of 16 columns
  bool b_table = false;   // rows of B are addressed through a table given to gemm; trans_a must be off
};

// Plan of one product; depends only on the shape, the element size and the number of threads. The kernel multiplies
// "scalars" [rows,k], broadcast one by one, with "vectors" [k,cols], loaded along cols; it computes C, or C transposed
// when the weight matrix has k innermost and is better read as scalars than packed.
struct GemmPlan {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t k = 0;
  std::int64_t ld_scalars = 0;
  std::int64_t ld_vectors = 0;
  std::int64_t ldc = 0;
  std::int64_t k_block = 0;
  std::int64_t panel_elements = 0;     // of scratch, before the partial sums
  std::size_t scratch_per_thread = 0;  // bytes
  int threads = 1;
  bool scalars_along_rows = false;  // true: scalars are stored [k,rows]; false: [rows,k]
  bool vectors_along_k = false;     // true: vectors are stored [cols,k] and must be transposed into panels
  bool pack_vectors = false;        // copy panels of [k,cols] into scratch even though they could be read in place
  bool vectors_padded = false;      // a last incomplete vector may be read whole
  bool swapped = false;             // scalars come from B and the kernel makes C transposed
  bool split_rows = false;          // threads share the rows (otherwise the columns)
  bool dot = false;                 // both operands are contiguous along k and one is thin: dot products, no packing
};

GemmPlan plan_gemm(const GemmShape& shape, int threads, std::size_t element_bytes = sizeof(float));

inline std::size_t gemm_scratch_bytes(const GemmPlan& plan) {
  return plan.scratch_per_thread * static_cast<std::size_t>(plan.threads);
}
inline std::size_t gemm_scratch_bytes(const GemmShape& shape, int threads, std::size_t element_bytes = sizeof(float)) {
  return gemm_scratch_bytes(plan_gemm(shape, threads, element_bytes));
}

// Runs a product. scratch: gemm_scratch_bytes(plan) bytes, 64-byte aligned; may be null when that is 0. b_rows: with
// b_table, the offset in elements of each stored row of B (k of them, or n when trans_b); rows may overlap, as a
// convolution's taps do.
void gemm(const GemmPlan& plan, const float* a, const float* b, float* c, const GemmEpilogue& epilogue, void* scratch,
          const std::int64_t* b_rows = nullptr);
void gemm(const GemmShape& shape, const float* a, const float* b, float* c, const GemmEpilogue& epilogue, void* scratch,
          int threads);

// Double precision; the plan must have been made with element_bytes = sizeof(double).
void gemm(const GemmPlan& plan, const double* a, const double* b, double* c, bool accumulate, void* scratch);
void gemm(const GemmShape& shape, const double* a, const double* b, double* c, bool accumulate, void* scratch,
          int threads);

}  // namespace starling::kernels
