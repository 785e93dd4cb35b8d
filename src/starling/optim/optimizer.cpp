#include "starling/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/optim/deferred_state.h"
#include "starling/tensor/without_memory.h"

namespace starling::optim {
namespace {

Tensor make_scalar(double value, DType dtype, Device device) {
  return starling::to(from_doubles({&value, 1}, {}, dtype), device);
}

// Weights of f64 alone have a learning rate of f64: rounded to f32 it is off in the eighth digit.
DType group_rate_type(const std::vector<Tensor>& parameters) {
  const auto wide = [](const Tensor& parameter) { return parameter.defined() && parameter.dtype() == DType::f64; };
  return !parameters.empty() && std::all_of(parameters.begin(), parameters.end(), wide) ? DType::f64 : DType::f32;
}

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups, const Setup& setup)
    : name_(setup.name), weight_decay_(setup.weight_decay), states_(setup.states), groups_(std::move(groups)) {
  check(setup.lr >= 0 && std::isfinite(setup.lr) && setup.weight_decay >= 0,
        "[{}] expected a learning rate and a weight decay of at least 0, got {} and {}", name_, setup.lr,
        setup.weight_decay);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    check(groups_[i].lr_scale >= 0 && groups_[i].weight_decay.value_or(0) >= 0,
          "[{}] expected a scale and a weight decay of at least 0 in group {}, got {} and {}", name_, i,
          groups_[i].lr_scale, groups_[i].weight_decay.value_or(0));
    for (const auto& parameter : groups_[i].parameters) add_slot(parameter, i);
  }
  check(!slots_.empty(),
        "[{}] expected parameters to update, got none; give it net.parameters() after the network's layers are added",
        name_);
  std::set<const TensorImpl*> seen;
  for (const auto& slot : slots_)
    check(seen.insert(slot.targets[0].impl()).second, "[{}] expected every parameter once, got '{}' again", name_,
          slot.targets[0].name());
  const auto rate_type = [&](const ParameterGroup& group) { return group_rate_type(group.parameters); };
  const Tensor base = add_scalar("lr", setup.lr, rate_type(groups_[0]));
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    rates_.push_back(
        group.lr_scale == 1 && rate_type(group) == base.dtype()
            ? base
            : add_scalar("group" + std::to_string(i) + ".lr", setup.lr * group.lr_scale, rate_type(group)));
  }
  if (setup.counts) count_ = add_scalar("step", 0, DType::i64);
}

void Optimizer::add_slot(const Tensor& parameter, std::size_t group) {
  check(parameter.defined() && parameter.requires_grad() && parameter.is_variable(),
        "[{}] expected named parameters that require gradients, got {}", name_,
        parameter.defined() ? to_string(parameter.type()) : "an empty handle");
  Slot slot{{parameter}, group};
  for (const auto& spec : states_) {
    const NoGrad no_grad;
    const bool deferred = spec.value == 0 && DeferredState::holds(parameter);
    Tensor state = deferred ? without_memory(parameter.type(), parameter.device())
                            : zeros(parameter.shape(), parameter.dtype(), parameter.device());
    if (spec.value != 0)
      copy_into(state, starling::to(full(parameter.shape(), spec.value, parameter.dtype()), parameter.device()));
    state.set_name(parameter.name() + "." + spec.name);
    slot.targets.push_back(std::move(state));
  }
  slots_.push_back(std::move(slot));
  device_ = parameter.device();
}

Tensor Optimizer::add_scalar(const std::string& what, double value, DType dtype) {
  Tensor scalar = make_scalar(value, dtype, device_);
  scalar.set_name(name_ + "." + what);
  scalars_.push_back(scalar);
  return scalar;
}

void Optimizer::assign_unless(const Tensor& skip, const Tensor& variable, const Tensor& value) {
  assign(variable, skip.defined() ? where(skip, variable, value) : value);
}

void Optimizer::advance(op::UpdateScalars& scalars) {
  if (!count_.defined()) return;
  assign_unless(scalars.skip, count_, add(count_, 1));
  scalars.t = count_;
}

void Optimizer::step() { run(Tensor()); }

void Optimizer::step(const Tensor& skip) {
  check(skip.defined() && skip.type() == TensorType{DType::boolean, {}}, "[{}] expected skip bool[], got {}", name_,
        skip.defined() ? to_string(skip.type()) : "an empty handle");
  run(skip);
}

void Optimizer::run(const Tensor& skip) {
  const NoGrad no_grad;
  op::UpdateScalars scalars{.lr = {}, .skip = skip};
  advance(scalars);
  for (const auto& slot : slots_) {
    const Tensor& parameter = slot.targets[0];
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    scalars.lr = rates_[slot.group];
    update(slot.targets, gradient, groups_[slot.group].weight_decay.value_or(weight_decay_), scalars);
    parameter.set_grad(Tensor());
  }
  default_generator().next_step();
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const auto& slot : slots_) all.push_back(slot.targets[0]);
  return all;
}

double Optimizer::lr() const { return scalars_[0].item(); }

void Optimizer::set_lr(double lr) {
  check(lr >= 0 && std::isfinite(lr), "[{}] expected a learning rate of at least 0, got {}", name_, lr);
  const auto write = [](const Tensor& rate, double value) { copy_into(rate, make_scalar(value, rate.dtype(), kCpu)); };
  write(scalars_[0], lr);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (!same(rates_[i], scalars_[0])) write(rates_[i], lr * groups_[i].lr_scale);
  }
}

std::vector<std::pair<std::string, Tensor>> Optimizer::state() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& scalar : scalars_) all.emplace_back(scalar.name(), scalar);
  for (const auto& slot : slots_) {
    for (std::size_t i = 1; i < slot.targets.size(); ++i) all.emplace_back(slot.targets[i].name(), slot.targets[i]);
  }
  return all;
}

}  // namespace starling::optim
