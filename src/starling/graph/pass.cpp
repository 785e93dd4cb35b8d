#include "starling/graph/pass.h"

#include <algorithm>
#include <chrono>

#include "starling/base/error.h"
#include "starling/base/nearest.h"
#include "starling/graph/verifier.h"

namespace starling {

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> list = {
      {"logical_shards", "repeat the step for each logical shard and add gradients in shard order",
       passes::logical_shards},
      {"partition", "cut the global program for this rank and insert collectives", passes::partition},
      {"prune", "drop nodes that no output or effect needs", passes::prune},
      {"cse", "merge equal nodes", passes::cse},
      {"layout", "turn transposes into flags of the products that read them", passes::layout},
      {"smaller_masks", "take the mask of relu from what was pooled, so that the whole is not kept",
       passes::smaller_masks},
      {"epilogues", "fold activations, their gradients and updates into products", passes::epilogues},
      {"fuse", "join elementwise chains into one pass over memory", passes::fuse},
      {"fused_optimizer", "join the updates of all parameters into one", passes::fused_optimizer},
      {"schedule", "choose order and lanes, so that communication hides behind compute", passes::schedule},
      {"rematerialise", "compute values again instead of keeping them, where memory is bounded", passes::rematerialise},
  };
  return list;
}

namespace {

// Without these a distributed program would be wrong, not only slower.
bool required(std::string_view name) { return name == "partition" || name == "logical_shards"; }

void check_names(const std::set<std::string>& disabled) {
  std::vector<std::string> known{"all"};
  for (const auto& pass : all_passes()) known.emplace_back(pass.name);
  for (const auto& name : disabled) {
    const bool found = std::find(known.begin(), known.end(), name) != known.end();
    const auto close = nearest(name, known);
    check(found, "[passes] expected the name of a pass, got '{}'{}", name,
          close.empty() ? "" : " (did you mean '" + close + "'?)");
  }
}

}  // namespace

PipelineResult run_passes(const Graph& graph, const PassContext& context, const std::set<std::string>& disabled) {
  check_names(disabled);
  verify(graph, "trace");
  PipelineResult result{graph, {}};
  for (const auto& pass : all_passes()) {
    PassReport report{std::string(pass.name), 0, result.graph.size(), result.graph.size(), false};
    report.skipped = !required(pass.name) && (disabled.contains("all") || disabled.contains(report.name));
    if (!report.skipped) {
      const auto start = std::chrono::steady_clock::now();
      result.graph = pass.run(result.graph, context);
      report.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      report.nodes_after = result.graph.size();
      verify(result.graph, pass.name);
    }
    result.reports.push_back(std::move(report));
  }
  return result;
}

}  // namespace starling
