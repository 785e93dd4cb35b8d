#pragma once

#include "starling/nn/init.h"
#include "starling/nn/module.h"

namespace starling::nn {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  Init init{};       // of the weight
  Init bias_init{};  // weight and bias default to uniform in ±1/√in
  static Settings settings();
};

// x · weightᵀ + bias over the last axis; weight [out, in].
class Linear : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  Tensor weight() const { return *weight_; }
  // Puts a parameter of another module in the place of the own weight: both train it (shared_weight.h).
  void share_weight(const Tensor& parameter);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

struct BilinearOptions {
  std::int64_t in1 = 0;
  std::int64_t in2 = 0;
  std::int64_t out = 0;
  bool bias = true;
  Init init{};
  Init bias_init{};  // weight and bias default to uniform in ±1/√in1
  static Settings settings();
};

// Bilinear form (a [.., in1], b [.., in2]) → [.., out], element k being aᵀ · weight[k] · b + bias[k]; weight [out, in1,
// in2]. A single input is used as both a and b.
class Bilinear : public Module {
 public:
  explicit Bilinear(const BilinearOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  Tensor* weight_;
  Tensor* bias_ = nullptr;
};

}  // namespace starling::nn
