#pragma once

#include "starling/tensor/interpreter.h"

namespace starling::kernels {

// Dense copy of a strided tensor; the tensor itself if it is already dense.
Tensor densify(const Tensor& tensor);

// Restricts eager ops to the CPU reference kernels during its lifetime: the oracle of kernel tests.
class ReferenceScope {
 public:
  ReferenceScope();
  ~ReferenceScope();
  ReferenceScope(const ReferenceScope&) = delete;
  ReferenceScope& operator=(const ReferenceScope&) = delete;

 private:
  bool before_;
};

}  // namespace starling::kernels
