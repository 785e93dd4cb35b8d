#pragma once

#include <optional>

#include "starling/ops/api/device_scope.h"
#include "starling/tensor/tensor.h"

namespace starling {

// For code that makes values beside its operands, such as zeros of their shape: eager code makes them where `like`
// lies. A trace is left as it is: the program decides where they are made.
class NearScope {
 public:
  explicit NearScope(const Tensor& like);

 private:
  std::optional<DeviceScope> scope_;
};

}  // namespace starling
