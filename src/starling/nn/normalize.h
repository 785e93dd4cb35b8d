#pragma once

#include "starling/nn/module.h"

namespace starling::nn {

struct BatchNorm2dOptions {
  std::int64_t channels = 0;
  double eps = 1e-5;
  double weight = 1;               // what every weight begins with
  double momentum = 0.1;           // the share of the newest batch in the running statistics
  bool global_statistics = false;  // under data parallelism: of the whole batch, exchanged between ranks
};

// Normalises every channel of [n, c, h, w] by the batch's mean and biased variance; in eval mode by the running ones,
// the buffers running_mean and running_var (unbiased), which every forward pass in train mode moves once.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(const BatchNorm2dOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  void move_statistics(const Tensor& mean, const Tensor& var, std::int64_t count);

  BatchNorm2dOptions options_;
  Tensor* weight_;
  Tensor* bias_;
  Tensor* running_mean_;
  Tensor* running_var_;
};

struct LayerNormOptions {
  std::int64_t width = 0;
  double eps = 1e-5;
};

// Normalises the last dimension, which has `width` elements.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const LayerNormOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double eps_;
  Tensor* weight_;
  Tensor* bias_;
};

}  // namespace starling::nn
