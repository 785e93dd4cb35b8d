#include "starling/train/loop/precision.h"

#include <string>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"

namespace starling {

Precision parse_precision(std::string_view text) {
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f16}) {
    if (to_string(precision) == text) return precision;
  }
  const std::string near = nearest(text, {"f32", "bf16", "f16"});
  fail("[precision] expected one of (f32, bf16, f16), got '{}'{}", text,
       near.empty() ? "" : " (did you mean '" + near + "'?)");
}

std::string_view to_string(Precision precision) { return name(compute_dtype(precision)); }

DType compute_dtype(Precision precision) {
  if (precision == Precision::bf16) return DType::bf16;
  return precision == Precision::f16 ? DType::f16 : DType::f32;
}

}  // namespace starling
