#pragma once

#include <functional>
#include <span>
#include <utility>

#include "starling/tensor/tensor.h"

namespace starling {

using TensorFn = std::function<Tensor(const Tensor&)>;                    // of one tensor
using TensorsFn = std::function<Tensor(std::span<const Tensor>)>;         // of several
using TensorListFn = std::function<TensorList(std::span<const Tensor>)>;  // of several, to several

// Functions made from functions. All of them run at once or traced, and may be nested: their results carry history when
// the arguments do. Slots of arguments are not touched. An argument the function does not depend on has a gradient of
// zeros.

// grad(f)(x) is the gradient at x of a function with one output element: grad(grad(f)) is the second derivative.
TensorFn grad(TensorFn f);
std::function<TensorList(std::span<const Tensor>)> grad_all(TensorsFn f);

// The same with the value: value_and_grad(f)(x) = (f(x), its gradient).
std::function<std::pair<Tensor, Tensor>(const Tensor&)> value_and_grad(TensorFn f);
std::function<std::pair<Tensor, TensorList>(std::span<const Tensor>)> value_and_grad_all(TensorsFn f);

// The outputs of f, and the function that takes a gradient for each of them (an empty handle: none) to the gradients of
// the inputs. It may be called many times.
struct Vjp {
  TensorList outputs;
  std::function<TensorList(std::span<const Tensor> cotangents)> pullback;
};
Vjp vjp(const TensorListFn& f, std::span<const Tensor> inputs);

// The outputs of f, and how they change when the inputs move along the tangents (one for each, of its type). The
// pullback is linear in its cotangent, so differentiating it by the cotangent gives the product with the Jacobian
// itself: two backward passes, and every gradient must be differentiable in the gradient it is given.
struct Jvp {
  TensorList outputs;
  TensorList tangents;
};
Jvp jvp(const TensorListFn& f, std::span<const Tensor> inputs, std::span<const Tensor> tangents);

// H(x) · v for a function with one output element: the gradient of (gradient · v). Several inputs: one product for
// each.
Tensor hessian_vector_product(const TensorFn& f, const Tensor& x, const Tensor& v);
TensorList hessian_vector_products(const TensorsFn& f, std::span<const Tensor> inputs, std::span<const Tensor> vs);

}  // namespace starling
