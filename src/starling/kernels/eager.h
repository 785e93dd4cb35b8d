#pragma once

#include "starling/tensor/interpreter.h"

namespace starling {

// A dense copy of a strided tensor; the tensor itself when it is dense already.
Tensor densify(const Tensor& tensor);

// Runs ops at once on the CPU reference kernels only, while it lives: the oracle of kernel tests.
class ReferenceScope {
 public:
  ReferenceScope();
  ~ReferenceScope();
  ReferenceScope(const ReferenceScope&) = delete;
  ReferenceScope& operator=(const ReferenceScope&) = delete;

 private:
  bool before_;
};

}  // namespace starling
