#include "starling/optim/loss_scaler.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/logical.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/optim/clip.h"

namespace starling::optim {
namespace {

constexpr double kLeastScale = 0x1p-24;  // the inverse of a smaller scale nears infinity: no gradient would be finite

// True if all numbers of a gradient are finite.
Tensor is_sound(const Tensor& gradient) {
  return all(isfinite(is_row_sparse(gradient) ? row_values(gradient) : gradient));
}

}  // namespace

Settings LossScalerOptions::settings() {
  using O = LossScalerOptions;
  return {setting("initial", &O::initial, "the scale of the first step", {.min = 0}),
          setting("growth", &O::growth, "times the scale after many good steps", {.min = 1}),
          setting("backoff", &O::backoff, "times the scale after an overflow", {.min = 0, .max = 1}),
          setting("interval", &O::interval, "good steps in a row before the scale grows", {.min = 1})};
}

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options) {
  check(options.initial > 0 && options.growth >= 1 && options.backoff > 0 && options.backoff <= 1 &&
            options.interval >= 1,
        "[LossScaler] expected a scale above 0, growth of at least 1, backoff in (0, 1] and an interval of at least 1, "
        "got {}, {}, {} and {}",
        options.initial, options.growth, options.backoff, options.interval);
  scale_ = from_doubles({&options.initial, 1}, {}, DType::f32);
  scale_.set_name(options.name + ".scale");
  good_ = zeros({});
  good_.set_name(options.name + ".good_steps");
}

Tensor LossScaler::scale(const Tensor& loss) const { return mul(loss, cast(scale_, loss.dtype())); }

Tensor LossScaler::unscale(const std::vector<Tensor>& parameters) const {
  const NoGrad no_grad;
  const Tensor inverse = div(1, scale_);
  Tensor finite;
  for (const auto& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    // Narrow floats are tested unscaled: dividing by a scale below 1 can make them infinite. f32 has the range, and
    // testing the scaled one leaves the product free to be fused into the update; before it is made, so that ranks have
    // reduced the gradient and do not reduce the product, too.
    const bool wide = gradient.dtype() == DType::f32;
    Tensor one = wide ? is_sound(gradient) : Tensor();
    const Tensor unscaled = scaled_gradient(gradient, inverse);
    if (!wide) one = is_sound(unscaled);
    finite = finite.defined() ? logical_and(finite, one) : one;
    parameter.set_grad(unscaled);
  }
  return finite.defined() ? logical_not(finite) : full({}, 0, DType::boolean);
}

void LossScaler::update(const Tensor& skip) {
  const NoGrad no_grad;
  const Tensor good = add(good_, 1), grows = greater_equal(good, static_cast<double>(options_.interval));
  const Tensor next = where(grows, mul(scale_, options_.growth), scale_);
  const Tensor zero = full({}, 0);
  // Never grows to infinity, from which the scale could not recover.
  const Tensor bounded = where(isfinite(next), next, scale_);
  const Tensor smaller = maximum(mul(scale_, options_.backoff), std::min(kLeastScale, options_.initial));
  assign(scale_, where(skip, smaller, bounded));
  assign(good_, where(logical_or(skip, grows), zero, good));
}

Tensor LossScaler::step(Optimizer& optimizer) {
  Tensor skip = unscale(optimizer.parameters());
  optimizer.step(skip);
  update(skip);
  return skip;
}

std::vector<std::pair<std::string, Tensor>> LossScaler::state() const {
  return {{scale_.name(), scale_}, {good_.name(), good_}};
}

}  // namespace starling::optim
