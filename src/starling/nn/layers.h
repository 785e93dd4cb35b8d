#pragma once

#include "starling/nn/module.h"
#include "starling/ops/attrs.h"
#include "starling/ops/pool.h"

namespace starling::nn {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
};

// x · weightᵀ + bias; weight [out, in]. Both begin uniform in ±1/√in.
class Linear : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  Tensor weight() const { return *weight_; }

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

struct Conv2dOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  double stddev = 0;  // of the normal numbers the weight begins with; 0: uniform ones
};

// weight [out, in / groups, kernel, kernel]; uniform ones begin in ±1/√(fan-in).
class Conv2d : public Module {
 public:
  explicit Conv2d(const Conv2dOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Conv2dOptions options_;
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

struct PoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(const PoolOptions& options = {}) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  PoolOptions options_;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(const PoolOptions& options = {}) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  PoolOptions options_;
};

// The mean of every channel: [n, c, ...] → [n, c].
class GlobalAvgPool : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5) : p_(p) {}

 protected:
  Tensor forward(const Tensor& x) override;  // the identity in eval mode

 private:
  double p_;
};

// All dimensions but the first into one.
class Flatten : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

class Relu : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};
class Tanh : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};
class Sigmoid : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};
class Gelu : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};

}  // namespace starling::nn
