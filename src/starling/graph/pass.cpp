#include "starling/graph/pass.h"

#include <algorithm>
#include <chrono>

#include "starling/base/error.h"
#include "starling/base/nearest.h"
#include "starling/graph/passes/shared_updates.h"
#include "starling/graph/verifier.h"

namespace starling {

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> list = {
      {"logical_shards", "repeat the step for each logical shard and add gradients in shard order",
       passes::logical_shards},
      {"shared_updates", "share out updates of weights whose gradient is a product of smaller factors",
       passes::shared_updates},
      {"partition", "cut the global program for this rank and insert collectives", passes::partition},
      {"prune", "drop nodes that no output or effect needs", passes::prune},
      {"buckets", "reduce small gradients together, in the order in which they become ready", passes::buckets},
      {"fold", "compute what depends on constants only", passes::fold},
      {"simplify", "drop identities, join views, casts and scales", passes::simplify},
      {"cse", "merge equal nodes", passes::cse},
      {"rejoin", "lay the gradients of a tensor's pieces side by side instead of adding them up", passes::rejoin},
      {"bodies", "run the passes over the bodies of cond, while and scan", passes::bodies},
      {"attention", "replace attention spelt out by one that stores no scores, forward and backward",
       passes::attention},
      {"cross_entropy", "replace log-probabilities at labels by the loss of logits, forward and backward",
       passes::cross_entropy},
      {"scales", "scale the smaller factor instead of a large product", passes::scales},
      {"layout", "turn transposes into flags of the products that read them", passes::layout},
      {"smaller_masks", "take the mask of relu from what was pooled, so that the whole is not kept",
       passes::smaller_masks},
      {"fold_batch_norm", "move normalisation by given statistics into the weights before it", passes::fold_batch_norm},
      {"epilogues", "fold activations, their gradients and updates into products", passes::epilogues},
      {"norm_activation", "join batch normalisations with the residual and relu behind them, and their gradients",
       passes::norm_activation},
      {"scaled_updates", "multiply gradients by a number where they are used up", passes::scaled_updates},
      {"fuse", "join elementwise chains, broadcasts and reductions into one pass over memory", passes::fuse},
      {"fused_optimizer", "join the updates of all parameters into one", passes::fused_optimizer},
      {"schedule", "choose order and lanes, so that communication hides behind compute", passes::schedule},
      {"rematerialise", "compute values again instead of keeping them, where memory is bounded", passes::rematerialise},
  };
  return list;
}

namespace {

// Without these a distributed program would be wrong, not just slower.
bool required(std::string_view name) { return name == "partition" || name == "logical_shards"; }

void check_names(const std::set<std::string>& disabled, std::span<const Pass> passes) {
  std::vector<std::string> known{"all"};
  for (const auto& pass : passes) known.emplace_back(pass.name);
  for (const auto& name : disabled) {
    const bool found = std::find(known.begin(), known.end(), name) != known.end();
    const auto close = nearest(name, known);
    check(found, "[passes] expected the name of a pass, got '{}'{}", name,
          close.empty() ? "" : " (did you mean '" + close + "'?)");
  }
}

template <class F>
double milliseconds_of(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

PipelineResult run_passes(const Graph& graph, const PassContext& given, const std::set<std::string>& disabled,
                          std::span<const Pass> passes) {
  check_names(disabled, passes);
  PassContext context = given;
  context.disabled = disabled;
  context.passes = passes;
  verify(graph, "trace");
  PipelineResult result{graph, {}};
  for (const auto& pass : passes) {
    PassReport report{
        .name = std::string(pass.name), .nodes_before = result.graph.size(), .nodes_after = result.graph.size()};
    report.skipped = !required(pass.name) && (disabled.contains("all") || disabled.contains(report.name));
    if (!report.skipped) {
      report.milliseconds = milliseconds_of([&] { result.graph = pass.run(result.graph, context); });
      report.nodes_after = result.graph.size();
      report.verify_ms = milliseconds_of([&] { verify(result.graph, pass.name); });
    }
    result.reports.push_back(std::move(report));
  }
  return result;
}

}  // namespace starling
