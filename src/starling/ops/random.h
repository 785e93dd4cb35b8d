#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Random numbers are a function of (seed, step, site, global index) alone. The key is a tensor i64[2] = (seed, step);
// the site is the place of the call. `global` and `offset` say which piece of the whole tensor this is (empty: all of
// it), so that pieces on several ranks hold what one rank would.
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

// Holds the key. Each thread has a default one; a compiled step reads and advances it as a variable.
class Generator {
 public:
  explicit Generator(std::int64_t seed = 0);
  const Tensor& key() const { return key_; }
  void seed(std::int64_t seed);
  void next_step();        // advances the step and starts counting calls anew; optimizers call it
  void to(Device device);  // programs need the key where they run; functions compiled before keep the old one

 private:
  Tensor key_;
  Tensor one_step_;  // what next_step adds
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

}  // namespace starling
