#include "starling/kernels/reference/product.h"

#include <cmath>
#include <utility>

#include "starling/base/error.h"
#include "starling/tensor/shape_parts.h"

namespace starling::kernels::reference {
Product make_product(const ArgDesc& a, const ArgDesc& b, bool trans_a, bool trans_b) {
  const int ra = a.shape.rank(), rb = b.shape.rank();
  Product p;
  p.a = {a.strides[ra - 2], a.strides[ra - 1]};
  p.b = {b.strides[rb - 2], b.strides[rb - 1]};
  if (trans_a) std::swap(p.a[0], p.a[1]);
  if (trans_b) std::swap(p.b[0], p.b[1]);
  p.m = a.shape[trans_a ? ra - 1 : ra - 2];
  p.k = a.shape[trans_a ? ra - 2 : ra - 1];
  p.n = b.shape[trans_b ? rb - 2 : rb - 1];
  p.batch = broadcast_shapes(stack_sizes(a.shape), stack_sizes(b.shape), "matmul");
  p.batch_strides[0] = broadcast_strides(stack_sizes(a.shape), stack_sizes(a.strides), p.batch);
  p.batch_strides[1] = broadcast_strides(stack_sizes(b.shape), stack_sizes(b.strides), p.batch);
  p.batch_strides[2] = contiguous_strides(p.batch);
  for (int i = 0; i < p.batch.rank(); ++i) p.batch_strides[2][i] *= p.m * p.n;
  return p;
}

ScalarFn activation(Symbol name) {
  if (name.str() == "relu") return [](double x) { return x > 0 || std::isnan(x) ? x : 0.0; };
  if (name.str() == "tanh") return [](double x) { return std::tanh(x); };
  if (name.str() == "sigmoid") return [](double x) { return 1 / (1 + std::exp(-x)); };
  check(name.empty(), "[activation] expected relu, tanh, sigmoid or none, got '{}'", name.str());
  return [](double x) { return x; };
}

ScalarFn activation_derivative(Symbol name) {
  if (name.str() == "relu") return [](double y) { return y > 0 ? 1.0 : 0.0; };
  if (name.str() == "tanh") return [](double y) { return 1 - y * y; };
  if (name.str() == "sigmoid") return [](double y) { return y * (1 - y); };
  check(name.empty(), "[activation] expected relu, tanh, sigmoid or none, got '{}'", name.str());
  return [](double) { return 1.0; };
}

}  // namespace starling::kernels::reference
