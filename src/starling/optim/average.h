#pragma once

#include <string>
#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::optim {

struct AverageOptions {
  double decay = 0.999;        // of an exponential moving average
  bool equal_weights = false;  // SWA: the plain mean of all that was averaged
  std::string name = "";       // of its state; empty: "ema" or "swa"
};

// An average of weights beside the weights themselves. update(), after the optimizer's step, is part of a compiled
// step; the first one copies. Buffers (running statistics) may be given too.
class WeightAverage {
 public:
  WeightAverage(std::vector<Tensor> weights, const AverageOptions& options);

  void update();
  // Exchanges weights and averages, at once: average in for an evaluation, and out again.
  void swap();

  const std::vector<Tensor>& averages() const { return averages_; }
  std::vector<std::pair<std::string, Tensor>> state() const;  // for checkpoints, swapped out

 private:
  std::vector<Tensor> weights_;
  std::vector<Tensor> averages_;
  Tensor count_;  // i64[]: updates so far
  AverageOptions options_;
};

// An exponential moving average: a = decay · a + (1 - decay) · w.
class Ema : public WeightAverage {
 public:
  explicit Ema(std::vector<Tensor> weights, double decay = 0.999) : WeightAverage(std::move(weights), {decay}) {}
};

// Stochastic weight averaging (Izmailov and others 2018): the mean of the weights at all updates.
class Swa : public WeightAverage {
 public:
  explicit Swa(std::vector<Tensor> weights) : WeightAverage(std::move(weights), {.equal_weights = true}) {}
};

// Averages in the place of the weights while it lives.
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
