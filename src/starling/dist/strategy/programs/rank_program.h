#pragma once

#include <memory>
#include <span>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/runtime/execution/instance.h"
#include "starling/runtime/program.h"

namespace starling::dist {

struct RankProgramOptions {
  Comm* comm = nullptr;  // communicator of the rank; outlives the program
  // Ranks and groups that collectives of the program itself go to (Mesh::world()); `comm` is one of the groups, and
  // rows are split over its ranks alone. Without a communicator: the program has no collectives of its own.
  CommWorld world = {};
  int shards = 0;  // > 0: deterministic, with so many logical shards
  std::string shard_order = "shard";
  std::string rounds = {};       // how gathered rows are taken in rounds: "turns", "shares"; empty: all at once
  bool local_gradients = false;  // gradient slots hold this rank's terms; the program that consumes them reduces them
};

// One rank's part of a global program, with its memory and the threads of the build options: arguments of rank > 0 are
// split along dimension 0, all else is replicated, and the resulting partial gradients become collectives on the rank's
// communicator.
class RankProgram {
 public:
  RankProgram(const graph::Graph& global, const Container& container, const runtime::BuildOptions& build,
              const RankProgramOptions& options);
  RankProgram(const RankProgram&) = delete;
  RankProgram& operator=(const RankProgram&) = delete;

  // Takes this rank's rows of split tensors, and replicated tensors in full. An error aborts the communicator, so that
  // the other ranks end too.
  void run(std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  Piece rows(std::int64_t size) const { return rows_of(size, context_); }
  bool splits_input(std::size_t i) const { return i < context_.inputs.size() && context_.inputs[i].is_split(); }
  bool splits_output(std::size_t i) const { return split_outputs_[i]; }
  void expect_rows(std::span<const Tensor> inputs) const;  // throws if an input does not have this rank's rows

  const graph::Graph& graph() const { return instance_->executable().graph(); }
  const runtime::Executable& executable() const { return instance_->executable(); }
  const std::vector<graph::PassReport>& reports() const { return reports_; }
  std::vector<TensorType> output_types() const;
  int shards() const { return context_.shards; }
  runtime::Instance& instance() const { return *instance_; }

 private:
  Comm* comm_;
  graph::PassContext context_;
  std::vector<graph::PassReport> reports_;
  std::unique_ptr<runtime::Instance> instance_;
  std::vector<bool> split_outputs_;
};

// The program of a rank along the axis of the context, with rounds (graph/passes/partition/rounds.h). Passes get it as
// the program of a single rank that exchanges by itself, so its reductions are not joined in buckets.
graph::Graph cut_in_rounds(const graph::Graph& global, const graph::PassContext& context, const std::string& rounds);

// Name of the group over whose ranks rows are split; empty: all ranks of the program.
std::string split_group(const RankProgramOptions& options);

// Threads for each of `ranks` ranks in this process: `asked`; if 0, those of the program divided evenly.
int threads_each(int asked, int ranks, const graph::ProgramOptions& program);

}  // namespace starling::dist
