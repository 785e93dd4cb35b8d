#pragma once

#include <cstring>
#include <string>

#include "starling/base/error.h"
#include "starling/dist/comm/call.h"

// Helpers shared by the kernels of collectives. Empty tensors may have no address.
namespace starling::dist {

inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

inline void zero_bytes(void* to, std::size_t bytes) {
  if (bytes > 0) std::memset(to, 0, bytes);
}

inline ReduceOp reduce_named(const std::string& name) {
  if (name == "sum") return ReduceOp::sum;
  if (name == "mean") return ReduceOp::mean;
  if (name == "max") return ReduceOp::max;
  if (name == "min") return ReduceOp::min;
  check(name == "product", "[comm] expected sum, mean, max, min or product, got '{}'", name);
  return ReduceOp::product;
}

}  // namespace starling::dist
