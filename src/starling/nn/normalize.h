#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"

namespace starling::nn {

struct BatchNormOptions {
  std::int64_t channels = 0;
  double eps = 1e-5;
  double weight = 1;               // initial value of every weight
  double momentum = 0.1;           // weight of the newest batch in the running statistics
  bool global_statistics = false;  // data parallelism: statistics of the whole batch, exchanged between ranks
  bool affine = true;              // has a weight and a bias
  bool running = true;             // keeps running statistics for eval mode; else eval mode uses the batch's too
  static Settings settings();
};
using BatchNorm2dOptions = BatchNormOptions;

// Normalises every channel of [n, c, ...] by the batch's mean and biased variance; in eval mode by the running ones,
// the buffers running_mean and running_var (unbiased), which every forward pass in train mode updates once. Without
// global statistics each rank of a data-parallel run normalises its own rows, and the buffers are updated with the
// averages over ranks.
class BatchNorm : public Module {
 public:
  // Sets the option after construction. Programs already traced keep the setting they were traced with.
  void use_global_statistics(bool on) { options_.global_statistics = on; }

 protected:
  BatchNorm(int axes, const BatchNormOptions& options);
  Tensor forward(const Tensor& x) override;

 private:
  void move_statistics(const Tensor& x, const Tensor& mean, const Tensor& var);

  int axes_;
  BatchNormOptions options_;
  Tensor* weight_ = nullptr;
  Tensor* bias_ = nullptr;
  Tensor* running_mean_ = nullptr;
  Tensor* running_var_ = nullptr;
};
class BatchNorm1d : public BatchNorm {  // [n, c] or [n, c, l]
 public:
  explicit BatchNorm1d(const BatchNormOptions& options) : BatchNorm(1, options) {}
};
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(const BatchNormOptions& options) : BatchNorm(2, options) {}
};
class BatchNorm3d : public BatchNorm {
 public:
  explicit BatchNorm3d(const BatchNormOptions& options) : BatchNorm(3, options) {}
};

// Switches every batch norm of a network to statistics of the whole batch, or back to those of each rank's rows.
// Returns the number of batch norms.
int use_global_statistics(Module& net, bool on = true);

struct LayerNormOptions {
  Sizes width = 0;  // sizes of the last axes, normalised together: 64 or {3, 64}
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;
  static Settings settings();
};
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const LayerNormOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t dims_;
  double eps_;
  Tensor* weight_ = nullptr;
  Tensor* bias_ = nullptr;
};

struct RmsNormOptions {
  Sizes width = 0;
  double eps = 1e-5;
  bool affine = true;
  static Settings settings();
};
// x / √(mean(x²) + eps) · weight over the last axes.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(const RmsNormOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t dims_;
  double eps_;
  Tensor* weight_ = nullptr;
};

struct GroupNormOptions {
  std::int64_t groups = 1;
  std::int64_t channels = 0;
  double eps = 1e-5;
  bool affine = true;
  static Settings settings();
};
// Normalises groups of channels of each sample of [n, c, ...].
class GroupNorm : public Module {
 public:
  explicit GroupNorm(const GroupNormOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  GroupNormOptions options_;
  Tensor* weight_ = nullptr;
  Tensor* bias_ = nullptr;
};

struct InstanceNormOptions {
  std::int64_t channels = 0;
  double eps = 1e-5;
  bool affine = false;
  static Settings settings();
};
// Normalises every channel of each sample of [n, c, ...].
class InstanceNorm : public Module {
 public:
  explicit InstanceNorm(const InstanceNormOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  InstanceNormOptions options_;
  Tensor* weight_ = nullptr;
  Tensor* bias_ = nullptr;
};

struct LocalResponseNormOptions {
  std::int64_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
  static Settings settings();
};
// Divides each element by a power of the sum of squares over neighbouring channels (AlexNet); see ops/api/local_norm.h.
class LocalResponseNorm : public Module {
 public:
  explicit LocalResponseNorm(const LocalResponseNormOptions& options = {}) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  LocalResponseNormOptions options_;
};

struct LocalContrastNormOptions {
  std::int64_t size = 9;
  double sigma = 2;
  double eps = 1e-5;
  static Settings settings();
};
// Subtractive and divisive normalisation of images by a Gaussian neighbourhood; see ops/api/local_norm.h.
class LocalContrastNorm : public Module {
 public:
  explicit LocalContrastNorm(const LocalContrastNormOptions& options = {}) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  LocalContrastNormOptions options_;
};

}  // namespace starling::nn
