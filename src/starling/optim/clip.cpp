#include "starling/optim/clip.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/unary.h"

namespace starling::optim {
namespace {

// Calls f with every parameter that has a gradient, and the gradient.
template <class F>
void for_gradients(const std::vector<Tensor>& parameters, F&& f) {
  const NoGrad no_grad;
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) f(parameter, gradient);
  }
}

// Contribution of one gradient to the joint norm: its largest element, or the sum of its powers. 16-bit gradients are
// widened to f32 first.
Tensor share(const Tensor& gradient, double p) {
  const Tensor wide = is_half(gradient.dtype()) ? cast(gradient, DType::f32) : dense(gradient);
  if (std::isinf(p)) return wide.numel() > 0 ? max(abs(wide)) : full({}, 0, wide.dtype());
  return sum(p == 2 ? square(wide) : pow(abs(wide), p));
}

}  // namespace

Tensor scaled_gradient(const Tensor& gradient, const Tensor& factor) {
  const Tensor number = cast(factor, gradient.dtype());
  if (!is_row_sparse(gradient)) return mul(gradient, number);
  return row_sparse(rows_of(gradient), mul(row_values(gradient), number), gradient.shape());
}

void clip_gradients(const std::vector<Tensor>& parameters, double limit) {
  check(limit >= 0, "[clip_gradients] expected a limit of at least 0, got {}", limit);
  for_gradients(parameters, [&](const Tensor& parameter, const Tensor& gradient) {
    parameter.set_grad(clamp(dense(gradient), -limit, limit));
  });
}

Tensor gradient_norm(const std::vector<Tensor>& parameters, double p) {
  check(p > 0, "[gradient_norm] expected a power above 0, got {}", p);
  Tensor all;
  for_gradients(parameters, [&](const Tensor&, const Tensor& gradient) {
    const Tensor one = share(gradient, p);
    all = !all.defined() ? one : std::isinf(p) ? maximum(all, one) : add(all, one);
  });
  if (!all.defined()) return full({}, 0);
  const NoGrad no_grad;
  return std::isinf(p) ? all : p == 2 ? sqrt(all) : pow(all, 1 / p);
}

Tensor clip_gradient_norm(const std::vector<Tensor>& parameters, double most, double p) {
  check(most >= 0, "[clip_gradient_norm] expected a norm of at least 0, got {}", most);
  Tensor norm = gradient_norm(parameters, p);
  for_gradients(parameters, [&, factor = Tensor()](const Tensor& parameter, const Tensor& gradient) mutable {
    constexpr double kAbove0 = 1e-6;
    if (!factor.defined()) factor = minimum(div(most, add(norm, kAbove0)), 1);
    parameter.set_grad(scaled_gradient(gradient, factor));
  });
  return norm;
}

}  // namespace starling::optim
