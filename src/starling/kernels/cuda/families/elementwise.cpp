#include "starling/kernels/cuda/elementwise.h"

namespace starling::kernels {
namespace {

using cuda::add_elementwise;

void add_arithmetic(KernelTable& table) {
  add_elementwise(table, "add", "a + b");
  add_elementwise(table, "sub", "a - b");
  add_elementwise(table, "mul", "a * b");
  add_elementwise(table, "div", "a / b", "b == 0 ? T(0) : b == T(-1) ? T(-a) : T(a / b)");
  add_elementwise(table, "floor_div", "floor_quotient(a, b)", "whole_quotient(a, b)");
  add_elementwise(table, "mod", "mod_of(a, b)", "whole_mod(a, b)");
  add_elementwise(table, "fmod", "fmod(a, b)", "whole_remainder(a, b)");
  add_elementwise(table, "pow", "pow(a, b)", "whole_pow(a, b)");
  add_elementwise(table, "maximum", "a >= b || a != a ? a : b");
  add_elementwise(table, "minimum", "a <= b || a != a ? a : b");
  add_elementwise(table, "neg", "-a");
  add_elementwise(table, "abs", "a < T(0) ? T(-a) : a");
  add_elementwise(table, "sign", "a > T(0) ? T(1) : a < T(0) ? T(-1) : a");
  add_elementwise(table, "square", "a * a");
  add_elementwise(table, "reciprocal", "T(1) / a");
  add_elementwise(table, "abs_pow", "power_of(a, p)");
  add_elementwise(table, "signed_pow", "copysign(power_of(a, p), a)");
  add_elementwise(table, "floor", "floor(a)", "a");
  add_elementwise(table, "ceil", "ceil(a)", "a");
  add_elementwise(table, "round", "rint(a)", "a");
  add_elementwise(table, "trunc", "trunc(a)", "a");
}

void add_functions(KernelTable& table) {
  add_elementwise(table, "exp", "exp(a)");
  add_elementwise(table, "expm1", "expm1(a)");
  add_elementwise(table, "log", "log(a)");
  add_elementwise(table, "log1p", "log1p(a)");
  add_elementwise(table, "log2", "log2(a)");
  add_elementwise(table, "sqrt", "sqrt(a)");
  add_elementwise(table, "rsqrt", "T(1) / sqrt(a)");
  add_elementwise(table, "erf", "erf(a)");
  for (const char* name : {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"})
    add_elementwise(table, name, std::string(name) + "(a)");
  add_elementwise(table, "atan2", "atan2(a, b)");
}

void add_tests(KernelTable& table) {
  add_elementwise(table, "equal", "a == b");
  add_elementwise(table, "not_equal", "a != b");
  add_elementwise(table, "less", "a < b");
  add_elementwise(table, "less_equal", "a <= b");
  add_elementwise(table, "greater", "a > b");
  add_elementwise(table, "greater_equal", "a >= b");
  add_elementwise(table, "logical_and", "(a != T(0)) && (b != T(0))");
  add_elementwise(table, "logical_or", "(a != T(0)) || (b != T(0))");
  add_elementwise(table, "logical_xor", "(a != T(0)) != (b != T(0))");
  add_elementwise(table, "logical_not", "a == T(0)");
  add_elementwise(table, "isnan", "a != a");
  add_elementwise(table, "isinf", "a == a && !(a - a == T(0))");
  add_elementwise(table, "isfinite", "a - a == T(0)");
}

// Expressions of floats stand for 0: these ops take integers alone.
void add_bits(KernelTable& table) {
  add_elementwise(table, "bitwise_and", "T(0)", "a & b");
  add_elementwise(table, "bitwise_or", "T(0)", "a | b");
  add_elementwise(table, "bitwise_xor", "T(0)", "a ^ b");
  add_elementwise(table, "bitwise_not", "T(0)", "~a");
  add_elementwise(table, "left_shift", "T(0)", "b < 0 || b > 63 ? T(0) : T((unsigned long long)a << b)");
  add_elementwise(table, "right_shift", "T(0)", "(long long)a >> (b < 0 || b > 63 ? 63 : (int)b)");
}

void add_choices(KernelTable& table) {
  add_elementwise(table, "where", "a ? b : c");
  add_elementwise(table, "masked_fill", "a ? T(p) : b");
  add_elementwise(table, "clamp", "a != a ? a : a < p ? T(p) : a > q ? T(q) : a");
  add_elementwise(table, "clamp_backward", "b >= p && b <= q ? a : T(0)");
  add_elementwise(table, "lerp", "c < T(0.5) ? a + c * (b - a) : b - (T(1) - c) * (b - a)");
}

void add_activations(KernelTable& table) {
  add_elementwise(table, "sigmoid", "T(1) / (T(1) + exp(-a))");
  add_elementwise(table, "sigmoid_backward", "a * b * (T(1) - b)");
  add_elementwise(table, "tanh_backward", "a * (T(1) - b * b)");
  add_elementwise(table, "relu", "a > T(0) || a != a ? a : T(0)");
  add_elementwise(table, "relu_backward", "b > T(0) ? a : T(0)");
  add_elementwise(table, "leaky_relu", "a < T(0) ? p * a : a");
  add_elementwise(table, "leaky_relu_backward", "b > T(0) ? a : p * a");
  add_elementwise(table, "prelu", "a < T(0) ? b * a : a");
  add_elementwise(table, "prelu_backward", "b > T(0) ? a : c * a");
  add_elementwise(table, "elu", "a < T(0) ? p * expm1(a) : a");
  add_elementwise(table, "elu_backward", "a * (b > T(0) ? T(1) : p * exp(b))");
  add_elementwise(table, "selu", "T(1.0507009873554805) * (a < T(0) ? T(1.6732632423543773) * expm1(a) : a)");
  add_elementwise(table, "selu_backward",
                  "a * T(1.0507009873554805) * (b > T(0) ? T(1) : T(1.6732632423543773) * exp(b))");
  add_elementwise(table, "hardswish", "a <= T(-3) ? -T(0) : a * (((a < T(3) ? a : T(3)) + T(3)) / T(6))");
  add_elementwise(table, "hardswish_backward", "b <= T(-3) ? T(0) : b < T(3) ? a * (b / T(3) + T(0.5)) : a");
  add_elementwise(table, "softplus", "softplus_of(a)");
  add_elementwise(table, "softplus_backward", "a * logistic(b)");
  add_elementwise(table, "gelu", "times(a, normal_share(a))");
  add_elementwise(table, "gelu_backward", "a * gelu_slope(b)");
  add_elementwise(table, "gelu_tanh", "times(a, logistic(gelu_argument(a)))");
  add_elementwise(table, "gelu_tanh_backward", "a * gelu_tanh_slope(b)");
  add_elementwise(table, "silu", "times(a, logistic(a))");
  add_elementwise(table, "silu_backward", "a * silu_slope(b)");
  add_elementwise(table, "mish", "times(a, tanh(softplus_of(a)))");
  add_elementwise(table, "mish_backward", "a * mish_slope(b)");
}

void add_losses(KernelTable& table) {
  add_elementwise(table, "l1_loss", "fabs(a - b)");
  add_elementwise(table, "huber_loss", "huber_of(fabs(a - b), p)");
  add_elementwise(table, "smooth_l1_loss",
                  "fabs(a - b) < p ? T(0.5) * (a - b) * (a - b) / p : fabs(a - b) - T(0.5) * p");
  add_elementwise(table, "bce_loss", "-(b * cut_log(a) + (T(1) - b) * cut_log(T(1) - a))");
  add_elementwise(table, "bce_with_logits_loss", "bce_logits(a, b, c)");
  add_elementwise(table, "kl_div_loss",
                  "p != T(0) ? exp(b) * (b - a) : b > T(0) ? b * (log(b) - a) : b == T(0) ? T(0) : T(0) / T(0)");
  add_elementwise(table, "hinge_loss", "p - b * a > T(0) || p - b * a != p - b * a ? p - b * a : T(0)");
}

}  // namespace

void register_cuda_elementwise(KernelTable& table) {
  add_arithmetic(table);
  add_functions(table);
  add_tests(table);
  add_bits(table);
  add_choices(table);
  add_activations(table);
  add_losses(table);
}

}  // namespace starling::kernels
