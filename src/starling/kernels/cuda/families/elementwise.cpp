#include "starling/kernels/cuda/elementwise.h"

namespace starling::kernels {

void register_cuda_elementwise(KernelTable& table) {
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
  add_elementwise(table, "neg", "-a");
  add_elementwise(table, "exp", "exp(a)");
  add_elementwise(table, "log", "log(a)");
  add_elementwise(table, "sqrt", "sqrt(a)");
  add_elementwise(table, "tanh", "tanh(a)");
  add_elementwise(table, "sigmoid", "T(1) / (T(1) + exp(-a))");
  add_elementwise(table, "relu", "a > T(0) || a != a ? a : T(0)");
  add_elementwise(table, "softplus", "(a > T(0) ? a : T(0)) + log1p(exp(a > T(0) ? -a : a))");
  add_elementwise(table, "softplus_backward", "a / (T(1) + exp(-b))");
  add_elementwise(table, "tanh_backward", "a * (T(1) - b * b)");
  add_elementwise(table, "sigmoid_backward", "a * b * (T(1) - b)");
  add_elementwise(table, "relu_backward", "b > T(0) ? a : T(0)");
}

}  // namespace starling::kernels
