#include "starling/runtime/containers.h"

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/graph/extract.h"
#include "starling/runtime/interpreter/graph_interpreter.h"

namespace starling {
namespace {

graph::Graph always(const Tensor& value) {
  graph::Graph graph;
  graph.outputs = {graph.add_constant(copied(value))};
  graph.node(0).device = value.device();
  return graph;
}

Tensor computed(const graph::Graph& initial) { return runtime::interpret(initial, Container(), {})[0]; }

}  // namespace

void SharedContainer::add(const std::string& name, Tensor tensor, graph::Graph initial) {
  tensors_.set(name, std::move(tensor));
  initial_.insert_or_assign(name, std::move(initial));
}

void SharedContainer::adopt(const graph::Graph& graph) {
  const std::unique_lock held(lock_);
  for (const auto& variable : graph.variables) {
    if (tensors_.contains(variable.name)) {
      const TensorType there = tensors_.get(variable.name).type();
      check(there == variable.type, "[container] expected variable '{}' of {} as container '{}' has it, got {}",
            variable.name, to_string(there), name_, to_string(variable.type));
    } else if (variable.init >= 0) {
      graph::Graph initial = initial_value(graph, variable.init);
      Tensor tensor = copied(computed(initial));
      tensor.set_name(variable.name);
      add(variable.name, std::move(tensor), std::move(initial));
    } else if (variable.tensor.defined()) {
      add(variable.name, variable.tensor, always(variable.tensor));
    }
  }
}

Tensor SharedContainer::value(const std::string& name) const {
  const std::shared_lock held(lock_);
  return copied(tensors_.get(name));
}

void SharedContainer::set(const std::string& name, const Tensor& value) {
  check(value.defined() && !value.traced() && value.contiguous(),
        "[container] expected a dense tensor with data for '{}', got none", name);
  const std::unique_lock held(lock_);
  if (!tensors_.contains(name)) {
    Tensor tensor = copied(value);
    tensor.set_name(name);
    return add(name, std::move(tensor), always(value));
  }
  const Tensor& there = tensors_.get(name);
  check(there.type() == value.type(), "[container] expected '{}' of {} in container '{}', got {}", name,
        to_string(there.type()), name_, to_string(value.type()));
  copy_into(there, value);
}

std::vector<std::string> SharedContainer::names() const {
  const std::shared_lock held(lock_);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_.entries()) names.push_back(name);
  return names;
}

void SharedContainer::reset() {
  const std::unique_lock held(lock_);
  for (const auto& [name, initial] : initial_) copy_into(tensors_.get(name), computed(initial));
}

Container SharedContainer::bindings() const {
  const std::shared_lock held(lock_);
  return tensors_;
}

std::shared_ptr<SharedContainer> Containers::open(const std::string& name) {
  const std::scoped_lock held(mutex_);
  auto& found = all_[name];
  if (!found) found = std::make_shared<SharedContainer>(name);
  return found;
}

std::shared_ptr<SharedContainer> Containers::at(const std::string& name) const {
  const std::scoped_lock held(mutex_);
  const auto it = all_.find(name);
  if (it != all_.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [other, container] : all_) known.push_back(other);
  const auto close = nearest(name, known);
  fail("[container] expected one of {} containers, got '{}'{}", known.size(), name,
       close.empty() ? "" : " (did you mean '" + close + "'?)");
}

std::vector<std::string> Containers::names() const {
  const std::scoped_lock held(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, container] : all_) names.push_back(name);
  return names;
}

void Containers::remove(const std::string& name) {
  at(name);  // throws if there is none
  const std::scoped_lock held(mutex_);
  all_.erase(name);
}

}  // namespace starling
