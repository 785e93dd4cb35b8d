// What the room tensor asks of the rooms above it. Readers of outside bytes apply no operations: coming here is a bug
// that the fuzzer shall report.
#include <cstdlib>

#include "starling/tensor/interpreter.h"
#include "starling/tensor/tensor.h"

namespace starling {

Interpreter& eager_interpreter() { std::abort(); }

Tensor dense(const Tensor& tensor);
Tensor dense(const Tensor&) { std::abort(); }

}  // namespace starling
