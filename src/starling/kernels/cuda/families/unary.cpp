#include "starling/kernels/cuda/elementwise.h"

namespace starling::kernels {

void register_cuda_unary(KernelTable& table) {
  using cuda::add_elementwise;
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
