#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Random numbers are a function of (seed, step, site, global index) only. The key is a tensor i64[2] = (seed, step);
// the site identifies the call. `global` and `offset` locate this piece in the whole tensor (empty: all of it), so that
// pieces on several ranks hold what one rank would draw.
struct RandomAttrs {
  Shape shape{};
  Shape global{};
  Shape offset{};
  std::int64_t site = 0;
  double a = 0;  // uniform: low; normal: mean
  double b = 1;  // uniform: high; normal: standard deviation
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("shape", &RandomAttrs::shape),   field("global", &RandomAttrs::global),
            field("offset", &RandomAttrs::offset), field("site", &RandomAttrs::site),
            field("a", &RandomAttrs::a),           field("b", &RandomAttrs::b),
            field("dtype", &RandomAttrs::dtype)};
  }
};
struct DropoutAttrs {
  double keep = 0.5;
  Shape global{};
  Shape offset{};
  std::int64_t site = 0;
  static AttrFields fields() {
    return {field("keep", &DropoutAttrs::keep), field("global", &DropoutAttrs::global),
            field("offset", &DropoutAttrs::offset), field("site", &DropoutAttrs::site)};
  }
};

// Owner of a key. Each thread has a default one; a compiled step reads and advances it as a variable.
class Generator {
 public:
  explicit Generator(std::int64_t seed = 0);
  const Tensor& key() const { return key_; }
  void seed(std::int64_t seed);
  void next_step();        // advances the step and resets call counts; called by optimizers
  void to(Device device);  // programs need the key on their device; functions compiled before keep the old one

 private:
  Tensor key_;
  Tensor one_step_;  // increment of next_step
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

// Key of random calls: the default generator's and, inside a loop, the trip (see loop_scope.h).
Tensor random_key();

// Copy of the current key, for calls whose gradient needs it: an optimizer may advance the generator before then. While
// tracing it is the generator's own.
Tensor own_key();

struct BernoulliAttrs {
  Shape shape{};
  Shape global{};
  Shape offset{};
  std::int64_t site = 0;
  double p = 0.5;  // used when no tensor is given
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("shape", &BernoulliAttrs::shape),   field("global", &BernoulliAttrs::global),
            field("offset", &BernoulliAttrs::offset), field("site", &BernoulliAttrs::site),
            field("p", &BernoulliAttrs::p),           field("dtype", &BernoulliAttrs::dtype)};
  }
};
struct RandintAttrs {
  Shape shape{};
  Shape global{};
  Shape offset{};
  std::int64_t site = 0;
  std::int64_t low = 0;
  std::int64_t high = 2;
  DType dtype = DType::i64;
  static AttrFields fields() {
    return {field("shape", &RandintAttrs::shape),   field("global", &RandintAttrs::global),
            field("offset", &RandintAttrs::offset), field("site", &RandintAttrs::site),
            field("low", &RandintAttrs::low),       field("high", &RandintAttrs::high),
            field("dtype", &RandintAttrs::dtype)};
  }
};
struct MultinomialAttrs {
  std::int64_t count = 1;
  bool replacement = false;
  Shape global{};  // shape of the whole result; pieces hold whole rows
  Shape offset{};
  std::int64_t site = 0;
  static AttrFields fields() {
    return {field("count", &MultinomialAttrs::count), field("replacement", &MultinomialAttrs::replacement),
            field("global", &MultinomialAttrs::global), field("offset", &MultinomialAttrs::offset),
            field("site", &MultinomialAttrs::site)};
  }
};
struct PermutationAttrs {
  std::int64_t n = 0;
  std::int64_t site = 0;
  static AttrFields fields() { return {field("n", &PermutationAttrs::n), field("site", &PermutationAttrs::site)}; }
};
struct ShuffleAttrs {
  std::int64_t axis = 0;
  bool inverse = false;  // inverse permutation
  std::int64_t site = 0;
  static AttrFields fields() {
    return {field("axis", &ShuffleAttrs::axis), field("inverse", &ShuffleAttrs::inverse),
            field("site", &ShuffleAttrs::site)};
  }
};

}  // namespace starling
