#pragma once

#include "starling/base/config/settings.h"
#include "starling/dist/codec/coded_gradients.h"
#include "starling/dist/mesh/layout_choice.h"
#include "starling/dist/mesh/mesh.h"
#include "starling/dist/mesh/mesh_choice.h"
#include "starling/dist/strategy/gradient_slots.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/state/state_plan.h"

namespace starling {

struct AllReduceOptions {
  // Bitwise equal results for any number of workers: the batch is cut into `shards` logical shards, each run by the
  // same program with one thread, and their gradients are added in shard order. Costs speed.
  bool deterministic = false;
  std::int64_t shards = 12;
  bool overlap = true;                // off: reductions run after the ops that produce them, without overlap
  double bucket_mb = 25;              // size of a bucket of small gradients reduced together
  int threads = 0;                    // threads of this rank; 0: those of the build options
  dist::CodecChoice codec = {};       // wire form of gradients; not in deterministic mode
  std::string shard_order = "shard";  // "tree" adds per worker first; for experiments, loses bitwise equality
  // State that every rank stores a piece of, instead of all (ZeRO): 1 optimizer state, 2 also gradients that are added
  // up over several batches, 3 also weights, which are gathered where they are used.
  std::int64_t zero = 0;
  // Ranks in a grid: rows of a batch are split along its axis `data`, and parameters along the others, as the layout
  // says. Without a mesh all ranks are on the axis `data`.
  dist::MeshChoice mesh = {};
  dist::LayoutChoice layout = {};
  static Settings settings();
};

// Throws Error if options exclude each other on a mesh; jobs are checked by it before anything starts.
void check_options(const AllReduceOptions& options, const dist::StatePlan& plan);

// Synchronous data parallelism on one rank: each step is one global program, of which this rank runs its part. Weights
// are replicated, batches are split by rows, and the resulting partial gradients become all-reduces, which overlap with
// the backward pass. Means are those of the whole batch, however uneven the rows, and a rank without rows makes the
// same calls as the others. Without begin(), which gives all ranks the values of rank 0, the first run of a program
// that communicates looks whether its variables are equal on all ranks.
//
// With `zero` tensors of the trained state are stored in pieces: gradients are scattered, each rank updates its pieces,
// and weights are gathered after the update or, stored in pieces too, before every use.
//
// With a mesh the program is cut along its other axes first: ops compute on pieces of the parameters that the layout
// splits there, and what they need of other pieces is exchanged in the groups of those axes. What is left is cut along
// `data` as above.
class AllReduce final : public dist::RankStrategy {
 public:
  AllReduce(std::shared_ptr<Comm> comm, AllReduceOptions options);

  std::string name() const override;
  int data_rank() const override { return data().rank(); }
  int data_ranks() const override { return data().size(); }
  int shards() const override { return options_.deterministic ? static_cast<int>(options_.shards) : 0; }
  bool global_program() const override { return true; }
  bool lockstep() const override { return true; }
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override;
  // Logical shards are added in their order, batch by batch: there a rank's own sum would change the bits.
  bool keeps_local_gradients() const override { return shards() == 0; }
  std::unique_ptr<runtime::Program> build_part(const graph::Graph& global, const Container& container,
                                               const runtime::BuildOptions& options) override;
  bool cuts_state(const Tensor& parameter) const override {
    return !plan_.cuts(parameter, dist::StatePlan::kState).empty();
  }
  bool make_piece(const Tensor& parameter, dist::ShardedState::FillPiece fill) override;
  void prepare(const dist::TrainedState& state) override;
  // Moves weights and optimizer state into the communicator's arena, if it has one, so that other ranks can read them,
  // and cuts what is stored in pieces.
  void begin(const dist::TrainedState& state) override;
  // State of the codec; resumed with another number of ranks, all of it together is handed out in equal shares.
  std::vector<NamedTensor> tensors() const override { return coded_.tensors(); }
  bool sums_over_ranks(const std::string& tensor) const override { return coded_.is_part(tensor); }
  void restored(std::int64_t /*step*/) override { coded_.restored(); }
  void regrouped() override { coded_.share_out(); }
  void after_update(std::int64_t step, double weight) override;
  std::vector<dist::LawCounter> counters() const override;
  dist::OpCounters exchanged(CommOp op) const override;

  const dist::ShardedState* sharded() const override { return sharded_.empty() ? nullptr : &sharded_; }
  bool shows_to_evaluate() const override { return plan_.splits_weights(); }
  void show() override;    // weights are whole
  void unshow() override;  // and in pieces again
  void clear(const Tensor& slot) override { sharded_.clear(slot); }

 private:
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options, bool local_gradients);
  std::unique_ptr<runtime::Program> build_once(const graph::Graph& global, const Container& container,
                                               const runtime::BuildOptions& options, bool local_gradients);
  graph::ProgramOptions program_options(graph::ProgramOptions program) const;
  // Ranks that split the rows.
  const std::shared_ptr<Comm>& shared_data() const { return mesh_ ? mesh_->share(dist::kDataAxis) : shared_comm(); }
  Comm& data() const { return *shared_data(); }

  AllReduceOptions options_;
  dist::StatePlan plan_;
  std::unique_ptr<Mesh> mesh_;  // null: all ranks split the rows
  dist::CodedGradients coded_;
  bool begun_ = false;
  dist::ShardedState sharded_;
  dist::TrainedState state_{};  // of begin()
  dist::SharedSlots slots_;
  std::uint64_t steps_ = 0;
  double samples_ = 0;
};

inline std::shared_ptr<dist::RankStrategy> allreduce(std::shared_ptr<Comm> comm, AllReduceOptions options = {}) {
  return std::make_shared<AllReduce>(std::move(comm), std::move(options));
}

}  // namespace starling
