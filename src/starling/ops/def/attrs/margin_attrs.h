#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct CosineAttrs {
  double margin = 0;
  static AttrFields fields() { return {field("margin", &CosineAttrs::margin)}; }
};

struct TripletAttrs {
  double margin = 1;
  double eps = 1e-6;
  static AttrFields fields() { return {field("margin", &TripletAttrs::margin), field("eps", &TripletAttrs::eps)}; }
};

// Keeps the cosine of a zero vector finite.
inline constexpr double kCosineEps = 1e-12;

}  // namespace starling::op
