#include "starling/kernels/cuda/elementwise.h"

namespace starling::kernels {

void register_cuda_binary(KernelTable& table) {
  using cuda::add_elementwise;
  add_elementwise(table, "add", "a + b");
  add_elementwise(table, "sub", "a - b");
  add_elementwise(table, "mul", "a * b");
  add_elementwise(table, "div", "a / b");
  add_elementwise(table, "maximum", "a >= b || a != a ? a : b");
  add_elementwise(table, "equal", "a == b");
  add_elementwise(table, "not_equal", "a != b");
  add_elementwise(table, "less", "a < b");
  add_elementwise(table, "less_equal", "a <= b");
  add_elementwise(table, "greater", "a > b");
  add_elementwise(table, "greater_equal", "a >= b");
  add_elementwise(table, "where", "a ? b : c");
}

}  // namespace starling::kernels
