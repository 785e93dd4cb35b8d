#pragma once

#include <functional>
#include <span>
#include <utility>

#include "starling/tensor/tensor.h"

namespace starling {

using TensorFn = std::function<Tensor(const Tensor&)>;                    // one tensor to one
using TensorsFn = std::function<Tensor(std::span<const Tensor>)>;         // several to one
using TensorListFn = std::function<TensorList(std::span<const Tensor>)>;  // several to several

// Function transforms, as in JAX. All run eagerly or traced and may be nested: results carry history when the arguments
// do. grad() slots of arguments are not touched. An argument the function does not depend on has a zero gradient.

// grad(f)(x): gradient at x of a function with one output element; grad(grad(f)) is the second derivative.
TensorFn grad(TensorFn f);
std::function<TensorList(std::span<const Tensor>)> grad_all(TensorsFn f);

// value_and_grad(f)(x) = (f(x), its gradient).
std::function<std::pair<Tensor, Tensor>(const Tensor&)> value_and_grad(TensorFn f);
std::function<std::pair<Tensor, TensorList>(std::span<const Tensor>)> value_and_grad_all(TensorsFn f);

// Outputs of f, and the pullback from cotangents of the outputs (an empty handle: none) to gradients of the inputs. The
// pullback may be called many times.
struct Vjp {
  TensorList outputs;
  std::function<TensorList(std::span<const Tensor> cotangents)> pullback;
};
Vjp vjp(const TensorListFn& f, std::span<const Tensor> inputs);

// Outputs of f, and their directional derivatives along the tangents (one per input, of its type). The pullback is
// linear in its cotangent, so differentiating it by the cotangent gives the Jacobian-vector product: two backward
// passes, and every gradient must itself be differentiable.
struct Jvp {
  TensorList outputs;
  TensorList tangents;
};
Jvp jvp(const TensorListFn& f, std::span<const Tensor> inputs, std::span<const Tensor> tangents);

// Hessian-vector product H(x) · v of a function with one output element: the gradient of (gradient · v). With several
// inputs, one product per input.
Tensor hessian_vector_product(const TensorFn& f, const Tensor& x, const Tensor& v);
TensorList hessian_vector_products(const TensorsFn& f, std::span<const Tensor> inputs, std::span<const Tensor> vs);

}  // namespace starling
