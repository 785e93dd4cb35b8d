#pragma once

#include <string>

#include "starling/tensor/tensor.h"

namespace starling {

// A tensor and the name it is kept under in files and containers.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace starling
