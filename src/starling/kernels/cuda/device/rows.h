#pragma once

#include <cuda_runtime.h>

// Functions of rows [rows, columns].
namespace starling::device {

enum class RowFunction : int {
  softmax,               // (x)
  log_softmax,           // (x)
  softmax_backward,      // (dy, y): y · (dy - Σ dy · y)
  log_softmax_backward,  // (dy, y): dy - eʸ · Σ dy
};

cudaError_t load_rows(RowFunction function);
// `second` is null for functions of one operand; the result may overwrite the first.
cudaError_t launch_rows_function(RowFunction function, const float* first, const float* second, float* out,
                                 long long rows, int columns, cudaStream_t stream);

// Cross-entropy: Σ over rows of lse - x[label] into `sum`, each row's log-sum-exp into `lse` and its term of the sum
// into `losses`. A label out of range gives NaN, since device code cannot throw. `scratch` holds
// cross_entropy_scratch(…) floats.
long long cross_entropy_scratch(long long rows, int classes);
cudaError_t load_cross_entropy();
cudaError_t launch_cross_entropy(const float* logits, const long long* labels, float* sum, float* lse, float* losses,
                                 long long rows, int classes, float* scratch, cudaStream_t stream);

// Gradient (exp(x - lse) - onehot) · scale; may overwrite the logits.
cudaError_t load_cross_entropy_backward();
cudaError_t launch_cross_entropy_backward(const float* logits, const long long* labels, const float* lse,
                                          const float* scale, float* out, long long rows, int classes,
                                          cudaStream_t stream);

}  // namespace starling::device
