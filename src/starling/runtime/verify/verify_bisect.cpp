#include <cmath>
#include <map>

#include "starling/base/error.h"
#include "starling/runtime/verify/verify_run.h"

namespace starling::runtime {
namespace {

constexpr double kSame = 1e-3;  // largest distance of values taken as equal

// Fingerprint of a value, invariant to reshapes and transposes: number of elements, sum, norm.
struct Print {
  double sum = 0, norm = 0;
};

Print print_of(const Tensor& value) {
  Print print;
  for (double v : value.to_vector()) {
    print.sum += v;
    print.norm += v * v;
  }
  print.norm = std::sqrt(print.norm);
  return print;
}

bool alike(const Print& a, const Print& b, double count) {
  const double size = std::max(a.norm, b.norm);
  return std::abs(a.norm - b.norm) <= kSame * size && std::abs(a.sum - b.sum) <= kSame * size * std::sqrt(count);
}

std::string described(const graph::Graph& graph, graph::NodeId id) {
  const graph::Node& node = graph.node(id);
  std::string text = node.op->name;
  if (!node.out.empty()) text = fmt::format("%{} = {}", node.out[0], text);
  if (!node.scope.empty()) text += " @" + node.scope.str();
  return text;
}

// First node of `now` with a value that `before` does not have.
std::string first_new_value(const VerifiedStep& step, const graph::Graph& before, const graph::Graph& now) {
  std::multimap<std::int64_t, Print> known;
  for (const auto& value : step.values(before)) known.emplace(value.numel(), print_of(value));
  const auto values = step.values(now);
  for (graph::NodeId id = 0; id < now.size(); ++id) {
    for (graph::ValueId out : now.node(id).out) {
      const Tensor& value = values[static_cast<std::size_t>(out)];
      const Print print = print_of(value);
      const auto [begin, end] = known.equal_range(value.numel());
      bool found = false;
      for (auto it = begin; it != end && !found; ++it)
        found = alike(print, it->second, static_cast<double>(value.numel()));
      if (!found) return described(now, id);
    }
  }
  return "";
}

// First node whose kernel disagrees with the interpreter.
std::string first_wrong_kernel(const VerifiedStep& step, const graph::Graph& graph) {
  const auto wanted = step.values(graph);
  const auto got = step.executed_values(graph);
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    for (graph::ValueId out : graph.node(id).out) {
      const auto at = static_cast<std::size_t>(out);
      if (relative_distance(got[at], wanted[at]) > kSame) return described(graph, id);
    }
  }
  return "";
}

}  // namespace

VerifyFault bisect(const VerifiedStep& step, std::span<const graph::Pass> passes, const DiffersFn& differs) {
  VerifyFault fault;
  if (differs(step.interpreted(step.graph()), fault)) {
    fault.stage = "trace";
    return fault;
  }
  if (differs(step.executed(step.graph()), fault)) {
    fault.stage = "lowering";
    fault.node = first_wrong_kernel(step, step.graph());
    return fault;
  }
  graph::Graph before = step.graph();
  for (std::size_t count = 1; count <= passes.size(); ++count) {
    const graph::Graph now = step.passed(passes.first(count));
    if (differs(step.executed(now), fault)) {
      fault.stage = std::string(passes[count - 1].name);
      VerifyFault ignored;
      fault.node =
          differs(step.interpreted(now), ignored) ? first_new_value(step, before, now) : first_wrong_kernel(step, now);
      return fault;
    }
    before = now;
  }
  return {};  // not reproducible
}

}  // namespace starling::runtime
