#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::optim {

struct AverageOptions {
  double decay = 0.999;        // of the exponential moving average
  bool equal_weights = false;  // SWA: plain mean of the weights at all updates
  std::string name = "";       // names its variables: "<weight>.<name>", "<name>.updates"; empty: "ema" or "swa"
};

// Running average of weights, kept beside them. Call update() after the optimizer's step; it can be part of a compiled
// step, and the first call copies. Buffers (running statistics) may be given too.
class WeightAverage {
 public:
  WeightAverage(std::vector<Tensor> weights, const AverageOptions& options);

  void update();
  // Exchanges weights and averages, eagerly: once before an evaluation with the averages, once after it.
  void swap();

  const std::vector<Tensor>& averages() const { return averages_; }
  std::vector<std::pair<std::string, Tensor>> state() const;  // for checkpoints; call while not swapped

 private:
  std::vector<Tensor> weights_;
  std::vector<Tensor> averages_;
  Tensor count_;  // i64[]: updates so far
  AverageOptions options_;
};

// Exponential moving average: a = decay · a + (1 - decay) · w.
class Ema : public WeightAverage {
 public:
  explicit Ema(std::vector<Tensor> weights, double decay = 0.999) : WeightAverage(std::move(weights), {decay}) {}
};

// Stochastic weight averaging (Izmailov and others 2018): the mean of the weights at all updates.
class Swa : public WeightAverage {
 public:
  explicit Swa(std::vector<Tensor> weights) : WeightAverage(std::move(weights), {.equal_weights = true}) {}
};

// Replaces the weights by their averages during its lifetime.
class AveragedScope {
 public:
  explicit AveragedScope(WeightAverage& average) : average_(average) { average_.swap(); }
  ~AveragedScope() { average_.swap(); }
  AveragedScope(const AveragedScope&) = delete;
  AveragedScope& operator=(const AveragedScope&) = delete;

 private:
  WeightAverage& average_;
};

}  // namespace starling::optim
