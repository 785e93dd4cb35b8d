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

// What passes may ask about the program being made.
struct PassContext {
  int world = 1;  // ranks along the data axis of the mesh
  int rank = 0;
  std::vector<Placement> inputs;  // where the graph's inputs lie; shorter: the rest is replicated
  int shards = 0;                 // > 0: deterministic mode with so many logical shards
  std::string shard_order = "shard";
  int threads = 1;
  int branches = 1;                     // compute lanes that independent branches may go to
  std::size_t memory_budget = 0;        // > 0: bytes that values may take at once, else they are computed again
  std::set<std::string> disabled = {};  // passes that are switched off: bodies are rewritten by the rest
  std::span<const Pass> passes = {};    // that are being run, by run_passes
  bool overlap = true;                  // off: collectives stand in the compute lane, where nothing hides them
  // How many bytes of small gradients are reduced by one exchange; the first bucket is smaller, so that it leaves
  // early.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
};

// A rewrite of the graph with one subject. Each can be printed, timed, switched off and tested alone.
struct Pass {
  std::string_view name;
  std::string_view doc;
  Graph (*run)(const Graph&, const PassContext&);
};

// One file each in passes/.
namespace passes {
Graph partition(const Graph& graph, const PassContext& context);  // global program → this rank's, with collectives
Graph logical_shards(const Graph& graph, const PassContext& context);   // deterministic mode: shards in fixed order
Graph prune(const Graph& graph, const PassContext& context);            // drops what no output or effect needs
Graph buckets(const Graph& graph, const PassContext& context);          // small reductions together, as they get ready
Graph fold(const Graph& graph, const PassContext& context);             // what depends on constants only, computed once
Graph simplify(const Graph& graph, const PassContext& context);         // algebra that holds for every value
Graph cse(const Graph& graph, const PassContext& context);              // equal nodes become one
Graph smaller_masks(const Graph& graph, const PassContext& context);    // backward reads what was pooled, not all of it
Graph rejoin(const Graph& graph, const PassContext& context);           // gradients of pieces side by side
Graph bodies(const Graph& graph, const PassContext& context);           // all passes over the bodies of control flow
Graph attention(const Graph& graph, const PassContext& context);        // softmax(q·kᵀ)·v without the scores
Graph cross_entropy(const Graph& graph, const PassContext& context);    // log-probabilities at labels, without the rest
Graph scales(const Graph& graph, const PassContext& context);           // scales of products to their smaller factor
Graph fold_batch_norm(const Graph& graph, const PassContext& context);  // given statistics into weights and biases
Graph epilogues(const Graph& graph, const PassContext& context);        // activations and updates into products
Graph norm_activation(const Graph& graph, const PassContext& context);  // normalisation, residual, relu into one
Graph scaled_updates(const Graph& graph, const PassContext& context);   // scales of gradients into their updates
Graph fuse(const Graph& graph, const PassContext& context);             // elementwise chains into one pass over memory
Graph layout(const Graph& graph, const PassContext& context);           // transposes and copies into operand flags
Graph fused_optimizer(const Graph& graph, const PassContext& context);  // all updates of one kind into one
Graph schedule(const Graph& graph, const PassContext& context);         // order and lanes
Graph rematerialise(const Graph& graph, const PassContext& context);    // computes again what does not fit in memory
}  // namespace passes

const std::vector<Pass>& all_passes();  // in the order they run

struct PassReport {
  std::string name;
  double milliseconds = 0;  // of the pass itself
  double verify_ms = 0;     // of the check after it
  int nodes_before = 0;
  int nodes_after = 0;
  bool skipped = false;
};

struct PipelineResult {
  Graph graph;
  std::vector<PassReport> reports;
};

// Runs every pass that is not in `disabled`, verifying after each. `required` passes (partition) run regardless. Tests
// and bisections give a list of their own.
PipelineResult run_passes(const Graph& graph, const PassContext& context, const std::set<std::string>& disabled,
                          std::span<const Pass> passes = all_passes());

}  // namespace starling
