#include "starling/nn/state.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"

namespace starling::nn {
namespace {

constexpr std::size_t kMostNamed = 8;  // names per category listed in a message

template <class T, class F>
std::string listed(const char* what, const std::vector<T>& all, F&& print) {
  std::string text;
  for (std::size_t i = 0; i < all.size() && i < kMostNamed; ++i) text += fmt::format("\n  {} {}", what, print(all[i]));
  if (all.size() > kMostNamed) text += fmt::format("\n  … and {} more", all.size() - kMostNamed);
  return text;
}

bool fits(const Tensor& into, const Tensor& from) {
  if (into.shape() != from.shape()) return false;
  return into.dtype() == from.dtype() || (is_float(into.dtype()) && is_float(from.dtype()));
}

void copy(const Tensor& into, const Tensor& from) {
  const Tensor there = into.device() == from.device() ? from : to(from, into.device());
  assign(into, there.dtype() == into.dtype() ? there : cast(there, into.dtype()));
}

}  // namespace

std::string LoadReport::print() const {
  const auto name = [](const std::string& text) { return text; };
  return fmt::format("{} loaded", loaded) + listed("missing", missing, name) + listed("unexpected", unexpected, name) +
         listed("misfit", misfits, [](const Misfit& m) {
           return fmt::format("{}: expected {}, got {}", m.name, to_string(m.expected), to_string(m.given));
         });
}

LoadReport load_tensors(const NamedTensors& into, const NamedTensors& from, const LoadOptions& options) {
  std::map<std::string, Tensor> wanted;
  for (const auto& [name, tensor] : into) {
    if (name.starts_with(options.to)) wanted.emplace(name, tensor);
  }
  LoadReport report;
  std::vector<std::pair<Tensor, Tensor>> pairs;
  std::set<std::string> found;
  for (const auto& [name, tensor] : from) {
    if (!name.starts_with(options.from)) continue;
    const std::string here = options.to + name.substr(options.from.size());
    const auto own = wanted.find(here);
    if (own == wanted.end()) {
      report.unexpected.push_back(name);
      continue;
    }
    check(found.insert(here).second, "[load_state] expected every name once, got '{}' twice", name);
    if (fits(own->second, tensor))
      pairs.emplace_back(own->second, tensor);
    else
      report.misfits.push_back({here, own->second.type(), tensor.type()});
  }
  for (const auto& [name, tensor] : into) {
    if (wanted.contains(name) && !found.contains(name)) report.missing.push_back(name);
  }
  if (options.strict && !report.complete())
    fail("[load_state] expected a state that fits, got one that does not:{}", report.print().substr(8));
  const NoGrad no_grad;
  for (const auto& [own, given] : pairs) copy(own, given);
  report.loaded = pairs.size();
  return report;
}

}  // namespace starling::nn
