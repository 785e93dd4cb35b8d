#pragma once

#include <string>

#include "starling/base/error.h"
#include "starling/dist/comm/call.h"

// Helpers shared by the kernels of collectives.
namespace starling::dist {

inline ReduceOp reduce_named(const std::string& name) {
  if (name == "sum") return ReduceOp::sum;
  if (name == "mean") return ReduceOp::mean;
  if (name == "max") return ReduceOp::max;
  if (name == "min") return ReduceOp::min;
  check(name == "product", "[comm] expected sum, mean, max, min or product, got '{}'", name);
  return ReduceOp::product;
}

}  // namespace starling::dist
