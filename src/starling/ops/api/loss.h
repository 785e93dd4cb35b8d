#pragma once

#include <optional>

#include "starling/ops/def/attrs/loss.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Losses are weighted means: the weighted sum over samples divided once by the global sum of weights, so that uneven
// pieces on several ranks add up correctly. Without weights every sample (every element, for elementwise losses) counts
// 1. `sum` returns the weighted sum, `none` the weighted loss of each sample.
enum class Reduction : std::uint8_t { mean, sum, none };

struct LossOptions {
  Tensor weight{};  // broadcasts with the losses
  Reduction reduction = Reduction::mean;
};

struct CrossEntropyOptions {
  Tensor weight{};                             // class weights, [classes]
  std::optional<std::int64_t> ignore_index{};  // rows with this label do not count
  double label_smoothing = 0;                  // share of the target spread evenly over all classes
  Reduction reduction = Reduction::mean;
};
// -log softmax(logits)[label]; logits [n, classes, d...]. The target is labels, i64 [n, d...], or probabilities of the
// logits' shape. A label has its class's weight; with probabilities every row counts 1.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

struct NllOptions {
  Tensor weight{};  // class weights, [classes]
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
// -log_probs at the labels; log_probs [n, classes, d...], labels i64 [n, d...].
Tensor nll(const Tensor& log_probs, const Tensor& labels, const NllOptions& options = {});

// Elementwise losses; prediction and target broadcast.
Tensor mse(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});  // (a - b)²
Tensor l1(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});   // |a - b|
// ½ d² up to |d| = delta, then delta · (|d| - ½ delta).
Tensor huber(const Tensor& prediction, const Tensor& target, double delta = 1, const LossOptions& options = {});
// ½ d² / beta up to |d| = beta, then |d| - ½ beta.
Tensor smooth_l1(const Tensor& prediction, const Tensor& target, double beta = 1, const LossOptions& options = {});
// -(t log p + (1 - t) log(1 - p)), logarithms clamped at -100.
Tensor bce(const Tensor& probability, const Tensor& target, const LossOptions& options = {});
// bce of sigmoid(logits), without overflow; pos_weight multiplies the term of t and broadcasts.
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const Tensor& pos_weight = {},
                       const LossOptions& options = {});
// t · (log t - log_probs), from t, or from log t if log_target is set.
Tensor kl_div(const Tensor& log_probs, const Tensor& target, bool log_target = false, const LossOptions& options = {});
// max(0, margin - t · x) with t = ±1.
Tensor hinge(const Tensor& x, const Tensor& target, double margin = 1, const LossOptions& options = {});

// Losses of rows [n, d]. Cosine: 1 - cos(a, b) if label > 0, else max(0, cos(a, b) - margin); labels i64 [n].
Tensor cosine_embedding(const Tensor& a, const Tensor& b, const Tensor& labels, double margin = 0,
                        const LossOptions& options = {});
// max(0, |anchor - positive| - |anchor - negative| + margin) with distances √Σ (x + eps)².
Tensor triplet(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin = 1,
               double eps = 1e-6, const LossOptions& options = {});

// Connectionist temporal classification: -log of the probability of all alignments of targets[i] with repeats and
// blanks, [n]. log_probs [t, n, classes], targets i64 [n, s], lengths i64 [n]. An impossible target has an infinite
// loss, or zero loss and gradient with zero_infinity. The mean weighs every sample 1.
Tensor ctc(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths, const Tensor& target_lengths,
           const op::CtcAttrs& attrs = {}, const LossOptions& options = {});

}  // namespace starling
