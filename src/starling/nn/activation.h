#pragma once

#include "starling/nn/init.h"
#include "starling/nn/module.h"

namespace starling::nn {

// Elementwise activations without options.
class Relu : public Module {  // max(x, 0)
 protected:
  Tensor forward(const Tensor& x) override;
};
class Relu6 : public Module {  // x clamped to [0, 6]
 protected:
  Tensor forward(const Tensor& x) override;
};
class Sigmoid : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};
class Tanh : public Module {
 protected:
  Tensor forward(const Tensor& x) override;
};
class Silu : public Module {  // x · sigmoid(x)
 protected:
  Tensor forward(const Tensor& x) override;
};
class Mish : public Module {  // x · tanh(softplus(x))
 protected:
  Tensor forward(const Tensor& x) override;
};
class Selu : public Module {  // keeps variance 1 with LeCun initialisation
 protected:
  Tensor forward(const Tensor& x) override;
};
class Hardswish : public Module {  // x · hardsigmoid(x)
 protected:
  Tensor forward(const Tensor& x) override;
};
class Hardsigmoid : public Module {  // x / 6 + 1/2 clamped to [0, 1]
 protected:
  Tensor forward(const Tensor& x) override;
};
class Softplus : public Module {  // log(1 + eˣ)
 protected:
  Tensor forward(const Tensor& x) override;
};
class Softsign : public Module {  // x / (1 + |x|)
 protected:
  Tensor forward(const Tensor& x) override;
};
class LogSigmoid : public Module {  // log(sigmoid(x))
 protected:
  Tensor forward(const Tensor& x) override;
};
class Tanhshrink : public Module {  // x - tanh(x)
 protected:
  Tensor forward(const Tensor& x) override;
};

struct GeluOptions {
  bool tanh = false;  // tanh approximation instead of the exact normal distribution
  static Settings settings();
};
class Gelu : public Module {
 public:
  explicit Gelu(const GeluOptions& options = {}) : tanh_(options.tanh) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  bool tanh_;
};

struct LeakyReluOptions {
  double slope = 0.01;
  static Settings settings();
};
class LeakyRelu : public Module {  // slope · x below 0
 public:
  explicit LeakyRelu(const LeakyReluOptions& options = {}) : slope_(options.slope) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double slope_;
};

struct EluOptions {
  double alpha = 1;
  static Settings settings();
};
class Elu : public Module {  // alpha · (eˣ - 1) below 0
 public:
  explicit Elu(const EluOptions& options = {}) : alpha_(options.alpha) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double alpha_;
};
class Celu : public Module {  // alpha · (e^(x / alpha) - 1) below 0
 public:
  explicit Celu(const EluOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  double alpha_;
};

struct HardtanhOptions {
  double min = -1;
  double max = 1;
  static Settings settings();
};
class Hardtanh : public Module {  // x clamped to [min, max]
 public:
  explicit Hardtanh(const HardtanhOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  HardtanhOptions options_;
};

struct PreluOptions {
  std::int64_t channels = 1;  // 1: one slope shared by all channels
  double slope = 0.25;        // initial value of the slopes
  static Settings settings();
};
class Prelu : public Module {  // weight · x below 0, with a learned weight
 public:
  explicit Prelu(const PreluOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Tensor* weight_;
};

struct AxisOptions {
  std::int64_t axis = -1;
  static Settings settings();
};
class Softmax : public Module {
 public:
  explicit Softmax(const AxisOptions& options = {}) : axis_(options.axis) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t axis_;
};
class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(const AxisOptions& options = {}) : axis_(options.axis) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t axis_;
};
// Gated linear unit: splits the axis in two halves; the first times the sigmoid of the second.
class Glu : public Module {
 public:
  explicit Glu(const AxisOptions& options = {}) : axis_(options.axis) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t axis_;
};

}  // namespace starling::nn
