#include "starling/nn/module.h"

#include <optional>

#include "starling/ops/apply.h"
#include "starling/ops/creation.h"
#include "starling/ops/scope.h"
#include "starling/tensor/interpreter.h"

namespace starling::nn {

Tensor Module::operator()(const Tensor& x) {
  std::optional<NameScope> scope;
  if (!name_.empty()) scope.emplace(name_.substr(name_.rfind('.') + 1));
  return forward(x);
}

Tensor& Module::add_parameter(std::string name, Tensor value) {
  value.set_requires_grad();
  parameters_.push_back({std::move(name), std::make_shared<Tensor>(std::move(value))});
  set_name(name_);
  return *parameters_.back().tensor;
}

void Module::set_name(const std::string& path) {
  name_ = path;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (auto& parameter : parameters_) parameter.tensor->set_name(prefix + parameter.name);
  for (auto& [name, child] : children_) child->set_name(prefix + name);
}

std::vector<std::pair<std::string, Tensor>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& parameter : parameters_) all.emplace_back(parameter.tensor->name(), *parameter.tensor);
  for (const auto& [name, child] : children_) {
    for (auto& below : child->named_parameters()) all.push_back(std::move(below));
  }
  return all;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> all;
  for (auto& [name, tensor] : named_parameters()) all.push_back(tensor);
  return all;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& tensor : parameters()) count += tensor.numel();
  return count;
}

void Module::train(bool on) {
  *training_ = on;
  for (auto& [name, child] : children_) child->train(on);
}

bool Module::training() const {
  current_interpreter().depends_on(training_);
  return *training_;
}

void Module::replace(const std::function<Tensor(const Tensor&)>& change) {
  const NoGrad no_grad;
  for (auto& parameter : parameters_) {
    const Tensor changed = change(*parameter.tensor);
    if (same(changed, *parameter.tensor)) continue;
    // The identity stays: compiled functions see that its type has changed.
    TensorImpl& own = *parameter.tensor->impl();
    // Other memory counts as written: gradients that saved the old values must not take these for them.
    while (changed.impl()->storage->version() <= own.storage->version()) changed.impl()->storage->bump_version();
    own.dtype = changed.dtype();
    own.device = changed.device();
    own.strides = changed.strides();
    own.storage = changed.impl()->storage;
    own.offset = changed.impl()->offset;
  }
  for (auto& [name, child] : children_) child->replace(change);
}

void Module::to(Device device) {
  replace([&](const Tensor& t) { return starling::to(t, device); });
}

void Module::to(DType dtype) {
  replace([&](const Tensor& t) { return cast(t, dtype); });
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (auto& step : steps_) y = (*step)(y);
  return y;
}

}  // namespace starling::nn
