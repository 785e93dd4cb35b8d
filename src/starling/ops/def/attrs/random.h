#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

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

// Key of random calls: the default generator's and, inside a loop, the trip (see loop_scope.h). Draws without operands
// are made on the generator's device, others where their operand is; while tracing it is the generator's own.
Tensor random_key();
Tensor random_key(Device operand);

// Copy of the current key, for calls whose gradient needs it: an optimizer may advance the generator before then. While
// tracing it is the generator's own.
Tensor own_key(Device operand);

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

}  // namespace starling::op
