#pragma once

#include <memory>

#include "starling/tensor/tensor.h"

namespace starling {

namespace op {
class RandomKey;  // ops/def/random_key.h
}

// Random numbers are a function of seed, step, call and place in the tensor only: pieces on several ranks hold what one
// rank would draw.

// Owner of a key. Each thread has a default one; a compiled step reads and advances it as a variable, on the device of
// the step.
class Generator {
 public:
  explicit Generator(std::int64_t seed = 0);
  const Tensor& key() const;
  void seed(std::int64_t seed);
  void next_step();        // advances the step and resets call counts; called by optimizers
  void to(Device device);  // where draws without operands are made from now on; dropout(x) draws where x is

  Device device() const { return device_; }
  const std::shared_ptr<op::RandomKey>& shared_key() const { return key_; }

 private:
  std::shared_ptr<op::RandomKey> key_;  // shared with compiled functions that read it
  Device device_ = kCpu;
};
Generator& default_generator();
void manual_seed(std::int64_t seed);

struct UniformOptions {
  double low = 0;
  double high = 1;
  DType dtype = DType::f32;
};
struct NormalOptions {
  double mean = 0;
  double stddev = 1;
  DType dtype = DType::f32;
};
Tensor uniform(const Shape& shape, const UniformOptions& options = {});  // in [low, high)
Tensor normal(const Shape& shape, const NormalOptions& options = {});
// Zeroes each element with probability p and scales the rest by 1 / (1 - p).
Tensor dropout(const Tensor& x, double p);

// 1 with probability p, else 0; p is a number, or a tensor of probabilities.
Tensor bernoulli(const Shape& shape, double p = 0.5, DType dtype = DType::f32);
Tensor bernoulli(const Tensor& p);

struct RandintOptions {
  std::int64_t low = 0;
  std::int64_t high = 2;
  DType dtype = DType::i64;
};
// Uniform integers in [low, high).
Tensor randint(const Shape& shape, const RandintOptions& options);

struct MultinomialOptions {
  std::int64_t count = 1;
  bool replacement = false;
};
// `count` categories (i64) per row of weights [rows, k] (or [k]), drawn in proportion to the weights; without
// replacement each at most once, as if drawn one after another.
Tensor multinomial(const Tensor& weights, const MultinomialOptions& options = {});

Tensor permutation(std::int64_t n);  // random permutation of 0 … n - 1 as i64
// x permuted along an axis, in the order that permutation() would draw.
Tensor shuffle(const Tensor& x, std::int64_t axis = 0);

}  // namespace starling
