#include "states.h"

#include <map>
#include <set>

namespace starling::python {

nn::LoadReport load_named(const nn::NamedTensors& into, const nn::NamedTensors& from, const nn::LoadOptions& options) {
  std::map<std::string, Tensor> own(into.begin(), into.end());
  std::set<std::string> there;
  nn::NamedTensors others, rest;
  for (const auto& [name, tensor] : from) {
    const auto found = own.find(name);
    const bool itself = found != own.end() && found->second.impl() == tensor.impl();
    if (itself)
      there.insert(name);
    else
      others.emplace_back(name, tensor);
  }
  for (const auto& [name, tensor] : into) {
    if (!there.contains(name)) rest.emplace_back(name, tensor);
  }
  nn::LoadReport report = nn::load_tensors(rest, others, options);
  report.loaded += there.size();
  return report;
}

}  // namespace starling::python
