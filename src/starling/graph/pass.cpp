#include "starling/graph/pass.h"

#include <algorithm>
#include <chrono>

#include "starling/base/config/nearest.h"
#include "starling/base/error.h"
#include "starling/graph/verifier.h"

namespace starling::graph {

void register_passes(PassTable& into);  // generated

void PassTable::add(const Pass& pass) {
  for (const Pass& other : passes_) {
    check(other.name != pass.name, "[passes] expected one pass '{}', got a second", pass.name);
    check(other.order != pass.order, "[passes] expected a place of its own for '{}', got {}, which '{}' has", pass.name,
          pass.order, other.name);
  }
  const auto later = [&](const Pass& other) { return other.order > pass.order; };
  passes_.insert(std::find_if(passes_.begin(), passes_.end(), later), pass);
}

const std::vector<Pass>& all_passes() {
  static const PassTable table = [] {
    PassTable made;
    register_passes(made);
    return made;
  }();
  return table.in_order();
}

namespace {

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

// Runs some of the context's passes, in their order, on what the ones before have left.
void run_some(std::span<const Pass> passes, const PassContext& context, PipelineResult& result) {
  const std::set<std::string>& disabled = context.program.disable;
  for (const auto& pass : passes) {
    PassReport report{
        .name = std::string(pass.name), .nodes_before = result.graph.size(), .nodes_after = result.graph.size()};
    report.skipped = !pass.required && (disabled.contains("all") || disabled.contains(report.name));
    if (!report.skipped) {
      report.milliseconds = milliseconds_of([&] { result.graph = pass.run(result.graph, context); });
      report.nodes_after = result.graph.size();
      report.verify_ms = milliseconds_of([&] { verify(result.graph, pass.name); });
    }
    result.reports.push_back(std::move(report));
  }
}

}  // namespace

PipelineResult run_passes(const Graph& graph, const PassContext& given, const std::set<std::string>& disabled,
                          std::span<const Pass> passes) {
  check_names(disabled, passes);
  PassContext context = given;
  context.program.disable = disabled;
  context.passes = passes;
  verify(graph, "trace");
  PipelineResult result{graph, {}};
  run_some(passes, context, result);
  return result;
}

BudgetedPasses::BudgetedPasses(const Graph& graph, const PassContext& context) : context_(context), before_{graph, {}} {
  if (context_.passes.empty()) context_.passes = all_passes();
  const std::span<const Pass> passes = context_.passes;
  check_names(context_.program.disable, passes);
  const auto first = std::find_if(passes.begin(), passes.end(), [](const Pass& pass) { return pass.budgeted; });
  const auto once = static_cast<std::size_t>(first - passes.begin());
  budgeted_ = passes.subspan(once);
  verify(graph, "trace");
  run_some(passes.first(once), context_, before_);
}

PipelineResult BudgetedPasses::within(std::size_t memory_budget) const {
  PassContext context = context_;
  context.program.memory_budget = memory_budget;
  PipelineResult result = before_;
  run_some(budgeted_, context, result);
  return result;
}

}  // namespace starling::graph
