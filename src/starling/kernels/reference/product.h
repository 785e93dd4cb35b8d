#pragma once

#include "starling/kernels/strides.h"
#include "starling/ops/def/symbol.h"

namespace starling::kernels::reference {

// Definition of matrix products, for dense or strided operands. Strides of a and b are those of [.., m, k] and [.., k,
// n]: a transposed operand has its last two exchanged.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  Shape batch{};
  std::array<Shape, 3> batch_strides{};  // of a, b, c
  std::array<std::int64_t, 2> a{}, b{};  // (row, column) strides
};
Product make_product(const ArgDesc& a, const ArgDesc& b, bool trans_a, bool trans_b);

// Calls store(index of c, value) for every element of the result, summed as V: double, or an unsigned integer.
template <class V = double, class T, class Store>
void multiply(const Product& p, const T* a, const T* b, Store&& store) {
  for_each_offset(p.batch, p.batch_strides, [&](const std::array<std::int64_t, 3>& at) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        V sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l) {
          sum +=
              static_cast<V>(a[at[0] + i * p.a[0] + l * p.a[1]]) * static_cast<V>(b[at[1] + l * p.b[0] + j * p.b[1]]);
        }
        store(at[2] + i * p.n + j, sum);
      }
    }
  });
}

// Activation by name, and its derivative as a function of its output; the empty name is the identity.
using ScalarFn = double (*)(double);
ScalarFn activation(Symbol name);
ScalarFn activation_derivative(Symbol name);

}  // namespace starling::kernels::reference
