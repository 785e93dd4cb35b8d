#include "starling/runtime/container.h"

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"

namespace starling {

Container Container::of(const graph::Graph& graph) {
  Container container;
  for (const auto& variable : graph.variables) {
    check(variable.tensor.defined(), "[container] expected variable '{}' to have a tensor, got none", variable.name);
    const auto it = container.entries_.find(variable.name);
    check(it == container.entries_.end() || same(it->second, variable.tensor),
          "[container] expected one tensor named '{}', got two; give parameters distinct names", variable.name);
    container.entries_[variable.name] = variable.tensor;
  }
  return container;
}

void Container::set(const std::string& name, Tensor tensor) { entries_[name] = std::move(tensor); }

const Tensor& Container::get(const std::string& name) const {
  const auto it = entries_.find(name);
  if (it != entries_.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [key, tensor] : entries_) known.push_back(key);
  const auto close = nearest(name, known);
  fail("[container] expected a variable that exists, got '{}'{}", name,
       close.empty() ? "" : " (did you mean '" + close + "'?)");
}

Container Container::clone() const {
  Container copy;
  for (const auto& [name, tensor] : entries_) {
    Tensor own = copied(tensor);
    own.set_name(name);
    copy.entries_[name] = own;
  }
  return copy;
}

std::vector<Tensor> Container::bind(const graph::Graph& graph) const {
  std::vector<Tensor> tensors;
  for (const auto& variable : graph.variables) {
    const Tensor& tensor = get(variable.name);
    check(tensor.type() == variable.type && tensor.contiguous(), "[container] expected '{}' to be a dense {}, got {}",
          variable.name, to_string(variable.type), to_string(tensor.type()));
    tensors.push_back(tensor);
  }
  return tensors;
}

Tensor apart_from(const Tensor& variable, const Tensor& input) {
  if (!variable.defined() || !input.impl()->storage) return input;
  if (!(variable.impl()->storage == input.impl()->storage)) return input;
  const NoGrad no_grad;
  return copied(input);
}

}  // namespace starling
