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

Tensor& Module::add_entry(Entries entries, std::string name, Tensor value) {
  (this->*entries).push_back({std::move(name), std::make_shared<Tensor>(std::move(value))});
  set_name(name_);
  return *(this->*entries).back().tensor;
}

Tensor& Module::add_parameter(std::string name, Tensor value) {
  value.set_requires_grad();
  return add_entry(&Module::parameters_, std::move(name), std::move(value));
}

Tensor& Module::add_buffer(std::string name, Tensor value) {
  return add_entry(&Module::buffers_, std::move(name), std::move(value));
}

void Module::set_name(const std::string& path) {
  name_ = path;
  const std::string prefix = path.empty() ? "" : path + ".";
  for (auto& parameter : parameters_) parameter.tensor->set_name(prefix + parameter.name);
  for (auto& buffer : buffers_) buffer.tensor->set_name(prefix + buffer.name);
  for (auto& [name, child] : children_) child->set_name(prefix + name);
}

void Module::collect(Entries entries, std::vector<std::pair<std::string, Tensor>>& into) const {
  for (const auto& entry : this->*entries) into.emplace_back(entry.tensor->name(), *entry.tensor);
  for (const auto& [name, child] : children_) child->collect(entries, into);
}

std::vector<std::pair<std::string, Tensor>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Tensor>> all;
  collect(&Module::parameters_, all);
  return all;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Tensor>> all;
  collect(&Module::buffers_, all);
  return all;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> all;
  for (auto& [name, tensor] : named_parameters()) all.push_back(tensor);
  return all;
}

std::vector<Tensor> Module::buffers() const {
  std::vector<Tensor> all;
  for (auto& [name, tensor] : named_buffers()) all.push_back(tensor);
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
  const auto replace_all = [&](std::vector<Entry>& entries) {
    for (auto& entry : entries) {
      const Tensor changed = change(*entry.tensor);
      if (same(changed, *entry.tensor)) continue;
      // The identity stays: compiled functions see that its type has changed.
      TensorImpl& own = *entry.tensor->impl();
      // Other memory counts as written: gradients that saved the old values must not take these for them.
      while (changed.impl()->storage->version() <= own.storage->version()) changed.impl()->storage->bump_version();
      own.dtype = changed.dtype();
      own.device = changed.device();
      own.strides = changed.strides();
      own.storage = changed.impl()->storage;
      own.offset = changed.impl()->offset;
    }
  };
  replace_all(parameters_);
  replace_all(buffers_);
  for (auto& [name, child] : children_) child->replace(change);
}

void Module::to(Device device) {
  replace([&](const Tensor& t) { return starling::to(t, device); });
}

void Module::to(DType dtype) {
  replace([&](const Tensor& t) { return is_float(t.dtype()) ? cast(t, dtype) : t; });
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (auto& step : steps_) y = (*step)(y);
  return y;
}

}  // namespace starling::nn
