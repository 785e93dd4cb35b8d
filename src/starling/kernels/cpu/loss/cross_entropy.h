#pragma once

#include <cstdint>

namespace starling::kernels {

// Cross entropy of contiguous logits [rows, cols] (float or double) with one class index per row.
//   loss(row) = weight(row) * (log sum exp(logits) - logits[label])
// Optional arrays are null. Throws when a label is outside [0, cols). Never allocates.
template <class T>
struct CrossEntropyArgs {
  const T* logits = nullptr;
  const std::int64_t* labels = nullptr;
  const T* row_weights = nullptr;  // [rows], optional: 1
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  T* row_loss = nullptr;       // [rows], optional
  T* probabilities = nullptr;  // [rows, cols], optional; may be logits itself
  T* log_sum_exp = nullptr;    // [rows], optional
};

// Returns the sum of all row losses, the same for any number of threads. Saves for the backward pass either
// probabilities (one more pass over memory now, a cheap backward) or log_sum_exp (small; the backward recomputes
// exponentials).
template <class T>
double cross_entropy(const CrossEntropyArgs<T>& args);

// dlogits = (probability - [class is label]) * scale * weight(row), from whichever of probabilities and log_sum_exp is
// given; with log_sum_exp, logits are read too. dlogits may be the very array of probabilities or logits.
template <class T>
void cross_entropy_backward(const CrossEntropyArgs<T>& args, T scale, T* dlogits);

}  // namespace starling::kernels
