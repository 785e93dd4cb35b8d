#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/graph/graph.h"
#include "starling/graph/program_options.h"

namespace starling::graph {

struct Pass;

// Properties of the program being compiled, for passes.
struct PassContext {
  int world = 1;  // ranks along the data axis of the mesh
  int rank = 0;
  std::string group = {};  // group of those `world` ranks, by the name that collectives give it; empty: the whole world
  std::vector<Layout> inputs = {};  // layouts of the graph's inputs; missing ones are replicated
  int shards = 0;                   // > 0: deterministic mode with this many logical shards
  std::string shard_order = "shard";
  ProgramOptions program = {};
  std::span<const Pass> passes = {};  // passes being run; empty: all_passes()
};

// Rewrite of the graph with one purpose. Each can be printed, timed, disabled and tested alone. A file of passes/ holds
// one, and says all there is to say of it: CMake calls its register_pass_<file>(PassTable&).
struct Pass {
  std::string_view name;
  std::string_view doc;
  int order = 0;          // passes run from the smallest number to the largest
  bool required = false;  // runs even if it is disabled
  bool budgeted = false;  // reads the memory budget: runs again, with all that follow, for each budget tried
  Graph (*run)(const Graph&, const PassContext&) = nullptr;
};

class PassTable {
 public:
  void add(const Pass& pass);  // throws if its name or its place is taken
  const std::vector<Pass>& in_order() const { return passes_; }

 private:
  std::vector<Pass> passes_;
};

const std::vector<Pass>& all_passes();  // in execution order

struct PassReport {
  std::string name;
  double milliseconds = 0;  // time of the pass
  double verify_ms = 0;     // time of verify() after it
  int nodes_before = 0;
  int nodes_after = 0;
  bool skipped = false;
};

struct PipelineResult {
  Graph graph;
  std::vector<PassReport> reports;
};

// Runs every pass that is not in `disabled`, verifying after each. Required passes always run. Tests and bisections
// give their own list. What the context says of both is replaced.
PipelineResult run_passes(const Graph& graph, const PassContext& context, const std::set<std::string>& disabled,
                          std::span<const Pass> passes = all_passes());

// Passes of one graph under several memory budgets, tried one after the other. Those before the first that reads the
// budget run once, when this is made: they are most of the work, and no budget changes what they do.
class BudgetedPasses {
 public:
  BudgetedPasses(const Graph& graph, const PassContext& context);

  // Result of run_passes() for this budget; passes that ran once are reported as they ran then.
  PipelineResult within(std::size_t memory_budget) const;

 private:
  PassContext context_;
  std::span<const Pass> budgeted_;
  PipelineResult before_;  // as the first budgeted pass finds it
};

}  // namespace starling::graph
