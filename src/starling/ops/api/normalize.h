#pragma once

#include "starling/ops/def/attrs/normalize.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Normalisation: (x - mean) / sqrt(var + eps) · weight + bias with biased variances. `weight` and `bias` may be empty
// handles; a bias needs a weight. All are pure and twice differentiable in every operand.

struct BatchNormOptions {
  double eps = 1e-5;
  // Under data parallelism: true: statistics of the global batch, exchanged between ranks (as SyncBatchNorm); false: of
  // each rank's own rows, with `mean` and `var` averaged over the ranks.
  bool global_statistics = false;
};
struct BatchNormResult {
  Tensor y;
  Tensor mean;
  Tensor var;
};
// Batch norm of x [n, c, ...]: statistics over all dimensions but c. Refuses channels without elements.
BatchNormResult batch_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                           const BatchNormOptions& options = {});

// Batch norm with given statistics: running ones, or those of a larger batch.
Tensor batch_norm_infer(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight = {},
                        const Tensor& bias = {}, const op::EpsAttrs& attrs = {});

// Layer norm; weight and bias have the shape of the normalised dimensions.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  const op::LayerNormAttrs& attrs = {});
// x / sqrt(mean(x²) + eps) · weight
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, const op::LayerNormAttrs& attrs = {});

// Group norm of x [n, c, ...], c cut into groups; weight and bias [c]. Instance norm has one group per channel.
Tensor group_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  const op::GroupNormAttrs& attrs = {});
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     const op::EpsAttrs& attrs = {});

}  // namespace starling
