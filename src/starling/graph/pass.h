#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/graph/graph.h"

namespace starling {

struct Pass;

// Properties of the program being compiled, for passes.
struct PassContext {
  int world = 1;  // ranks along the data axis of the mesh
  int rank = 0;
  std::vector<Placement> inputs;  // layouts of the graph's inputs; missing ones are replicated
  int shards = 0;                 // > 0: deterministic mode with this many logical shards
  std::string shard_order = "shard";
  int threads = 1;
  int branches = 1;                     // compute lanes for independent branches
  std::size_t memory_budget = 0;        // > 0: limit of live bytes, met by recomputing values
  std::set<std::string> disabled = {};  // disabled passes, for the rewriting of bodies
  std::span<const Pass> passes = {};    // passes being run, set by run_passes
  bool overlap = true;                  // off: collectives run in the compute lane and are not overlapped
  // Bytes of small gradients that are reduced in one exchange; the first bucket is smaller, so that it starts early.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
};

// Rewrite of the graph with one purpose. Each can be printed, timed, disabled and tested alone.
struct Pass {
  std::string_view name;
  std::string_view doc;
  Graph (*run)(const Graph&, const PassContext&);
};

// The passes, one file each in passes/.
namespace passes {
Graph partition(const Graph& graph, const PassContext& context);  // global program to this rank's, with collectives
Graph logical_shards(const Graph& graph, const PassContext& context);   // deterministic mode: shards in fixed order
Graph prune(const Graph& graph, const PassContext& context);            // drops nodes that no output or effect needs
Graph buckets(const Graph& graph, const PassContext& context);          // batches small reductions as they become ready
Graph fold(const Graph& graph, const PassContext& context);             // constant folding
Graph simplify(const Graph& graph, const PassContext& context);         // algebraic rewrites valid for every value
Graph cse(const Graph& graph, const PassContext& context);              // common subexpression elimination
Graph smaller_masks(const Graph& graph, const PassContext& context);    // relu masks from pooled values
Graph rejoin(const Graph& graph, const PassContext& context);           // concatenates gradients of slices
Graph bodies(const Graph& graph, const PassContext& context);           // runs all passes on control-flow bodies
Graph attention(const Graph& graph, const PassContext& context);        // softmax(q·kᵀ)·v without storing scores
Graph cross_entropy(const Graph& graph, const PassContext& context);    // fused softmax cross entropy
Graph scales(const Graph& graph, const PassContext& context);           // moves scales to the smaller factor
Graph fold_batch_norm(const Graph& graph, const PassContext& context);  // folds fixed statistics into the weights
Graph epilogues(const Graph& graph, const PassContext& context);        // folds activations and updates into products
Graph norm_activation(const Graph& graph, const PassContext& context);  // fuses normalisation, residual, relu
Graph scaled_updates(const Graph& graph, const PassContext& context);   // folds scales of gradients into their updates
Graph fuse(const Graph& graph, const PassContext& context);             // fuses elementwise chains into one kernel
Graph layout(const Graph& graph, const PassContext& context);           // transposes and copies into operand flags
Graph fused_optimizer(const Graph& graph, const PassContext& context);  // fuses updates of one kind
Graph schedule(const Graph& graph, const PassContext& context);         // chooses order and lanes
Graph rematerialise(const Graph& graph, const PassContext& context);    // recomputes values to meet the memory budget
}  // namespace passes

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

// Runs every pass that is not in `disabled`, verifying after each. Required passes (partition) always run. Tests and
// bisections give their own list.
PipelineResult run_passes(const Graph& graph, const PassContext& context, const std::set<std::string>& disabled,
                          std::span<const Pass> passes = all_passes());

}  // namespace starling
