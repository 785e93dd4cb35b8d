#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/dist/strategy/state/model_sum.h"
#include "starling/dist/strategy/state/sharded_state.h"
#include "starling/ops/def/sharding/sharding.h"
#include "starling/optim/optimizer.h"
#include "starling/runtime/program.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

// Trained state that a strategy synchronises among ranks. All ranks give the same names in the same order.
struct TrainedState {
  std::vector<NamedTensor> weights{};    // parameters, by their names in the network
  std::vector<NamedTensor> buffers{};    // running statistics and the like
  std::vector<NamedTensor> optimizer{};  // optimizer state
  optim::Optimizer* rule = nullptr;      // the optimizer, for strategies with updates(); null: unknown
};

// Gradients of one step of this rank, in the order of the weights: means over `weight` samples (or tokens). exchange()
// overwrites them and the weight by the agreed mean and its number of samples, which the update takes. A weight of 0
// afterwards means that no rank had samples and there is nothing to update. A rank without rows, or one whose step is
// closed(), gives a weight of 0 and gradients of any value, but in memory of their own.
struct GradientStep {
  std::int64_t step = 0;  // update number, counted from 0 over the whole run; equal on all ranks
  double weight = 0;
  std::span<const NamedTensor> gradients{};
  // Name of a value that is not finite, for which this step is left out with a weight of 0; empty: none. exchange() may
  // find one itself.
  std::string not_finite{};
};

// Named counter of a strategy's guarantees, always kept: pushes, syncs, bytes, dropped gradients, the largest gap.
struct LawCounter {
  std::string name;
  double value = 0;
};

OpCounters operator+(OpCounters a, const OpCounters& b);

// Distributed strategy, as run by one rank. Every rank, a thread or a process, has its own network, optimizer and
// trainer and is given its own rows of every batch; only the strategy knows of the other ranks.
//
// Call order of a trainer: prepare and begin once, with tensors that live as long as the run; restored, if it has
// loaded a checkpoint. Then for each step before_step, and
//   either, without exchanges_gradients(), the program alone: if global_program(), by CompiledFunction::call with
//     GlobalRows{program_rows(batch)}, also on ranks without rows, since it contains collectives; else with the rank's
//     own rows, and not at all without any;
//   or the backward program (not without rows, nor if closed()), exchange, and, unless updates(), the update
//   program; and after_update in any case.
// settle whenever a single model is needed: at the end, and before evaluations if settles_to_evaluate(); show and
// unshow around evaluations if shows_to_evaluate().
// One thread per rank; an error of one rank aborts the communicator, so that the others end too.
class RankStrategy : public runtime::Strategy {
 public:
  explicit RankStrategy(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) {}

  Comm& comm() const { return *comm_; }
  const std::shared_ptr<Comm>& shared_comm() const { return comm_; }
  int rank() const { return comm_->rank(); }
  int world() const { return comm_->size(); }

  // rows: this rank's rows of a batch. program_rows: rows of all ranks of its global program together, which are all
  // ranks, or those of its group. Loaders split the same way if given data_rank(), data_ranks(), shards() and groups()
  // as LoaderOptions. data_rank, data_ranks: place of this rank among those that split the rows; on a mesh others hold
  // the same rows.
  virtual int data_rank() const { return rank(); }
  virtual int data_ranks() const { return world(); }
  Piece rows(std::int64_t batch) const;
  std::int64_t program_rows(std::int64_t batch) const;
  virtual int shards() const { return 0; }  // > 0: deterministic, split by this many logical shards
  virtual int groups() const { return 1; }  // number of groups of equal size, of consecutive ranks

  // True: programs are traced with the shapes of the whole batch and partitioned, so that means are those of all ranks.
  // False: they are traced with this rank's rows and know nothing of others; noise should then differ between ranks.
  virtual bool global_program() const { return false; }

  // True if ranks make every step at about the same time. If false, a trainer makes no collective calls of its own in
  // ordinary steps: they would make a fast rank wait for a slow one.
  virtual bool lockstep() const { return false; }

  // Default: a program of this rank alone.
  std::unique_ptr<runtime::Program> build(const graph::Graph& global, const Container& container,
                                          const runtime::BuildOptions& options) override;

  // True if build_part() keeps gradients apart: a program that adds to gradient slots leaves this rank's terms in them,
  // without communication, and the one that consumes the slots reduces them. Both are then built by build_part().
  virtual bool keeps_local_gradients() const { return false; }
  virtual std::unique_ptr<runtime::Program> build_part(const graph::Graph& global, const Container& container,
                                                       const runtime::BuildOptions& options) {
    return build(global, container, options);
  }

  // True if every rank stores a piece of the optimizer state of this parameter: it need not be made whole before
  // (optim::DeferredState).
  virtual bool cuts_state([[maybe_unused]] const Tensor& parameter) const { return false; }
  // Before prepare(): makes, by `fill`, this rank's piece of a parameter that has no memory and of which every rank
  // stores a piece. False: it is to be made whole.
  virtual bool make_piece([[maybe_unused]] const Tensor& parameter, [[maybe_unused]] ShardedState::FillPiece fill) {
    return false;
  }
  // Before a checkpoint is loaded and begin() is called: cuts optimizer state that is stored in pieces.
  virtual void prepare([[maybe_unused]] const TrainedState& state) {}
  // Collective. Default: broadcasts rank 0's values.
  virtual void begin(const TrainedState& state);
  // Collective: called after the tensors of begin and tensors() were restored from a checkpoint taken at this step.
  virtual void restored([[maybe_unused]] std::int64_t step) {}

  // Collective, after restored: the checkpoint had another number of ranks. The trained state of all ranks is what
  // model() was there, and tensors() are those of its rank 0; those of which sums_over_ranks() is true are the sums of
  // all its ranks' tensors.
  virtual void regrouped() {}
  // True if every rank holds a part of what the tensor of tensors() stands for.
  virtual bool sums_over_ranks([[maybe_unused]] const std::string& tensor) const { return false; }

  // Before the programs of this step: may bring the weights up to date.
  virtual void before_step([[maybe_unused]] std::int64_t step) {}

  virtual bool exchanges_gradients() const { return false; }
  // True if this rank skips its rows of this step: the gradients were agreed without it, or it lags and must catch up.
  // Asked by trainers whose programs are the rank's own.
  virtual bool closed([[maybe_unused]] std::int64_t step) { return false; }
  virtual void exchange([[maybe_unused]] GradientStep& step) {}
  // True if exchange() also makes the update, with the hyper-parameters of TrainedState::rule; gradient clipping and
  // loss scaling are then not supported.
  virtual bool updates() const { return false; }

  // True if exchange() takes row-sparse gradients as they are; else they are made dense for it.
  virtual bool takes_rows() const { return false; }

  // `weight`: samples (or tokens) in this rank's update: of all ranks for a global program, else its own; after
  // exchange() the weight that it set. 0: no update was made.
  virtual void after_update([[maybe_unused]] std::int64_t step, [[maybe_unused]] double weight) {}

  // True if after_update of this step may synchronise the weights with other ranks; equal on all ranks.
  virtual bool meets_after([[maybe_unused]] std::int64_t step) const { return false; }
  // True if each rank synchronises on its own when ready; false if all ranks meet.
  virtual bool meets_alone() const { return false; }

  // Collective: sets the weights to the model of the run, equal on all ranks.
  virtual void settle() {}
  virtual bool settles_to_evaluate() const { return false; }
  // True if settle() would change the weights compared with those that evaluations have seen; equal on all ranks.
  virtual bool settling_changes() const { return false; }
  // True if the model to evaluate differs from the weights that ranks train: show() puts it in their place, equal on
  // all ranks, and unshow() restores the rank's own. Both are collective.
  virtual bool shows_to_evaluate() const { return false; }
  virtual void show() {}
  virtual void unshow() {}
  // True if the trained state of all ranks is equal now, so that rank 0's alone makes a checkpoint; else a checkpoint
  // holds that of every rank.
  virtual bool settled() const { return true; }

  // Trained state of which every rank stores a piece; null: all of it is whole on every rank.
  virtual const ShardedState* sharded() const { return nullptr; }

  // Collective, for checkpoints of ranks that are not settled: how the work of all of them makes the model, on rank 0;
  // tensors that are not among it are rank 0's own. Changes no rank's state. Valid until the next step.
  virtual std::vector<ModelSum> model() { return {}; }

  // Additional state of this rank for checkpoints, beside the trained state. The names are fixed from begin on; writing
  // into the tensors restores it.
  virtual std::vector<NamedTensor> tensors() const { return {}; }

  virtual std::vector<LawCounter> counters() const { return {}; }

  // Cost of this rank's operations of one kind so far, over all groups used.
  virtual OpCounters exchanged(CommOp op) const { return comm_->journal().counters(op); }

 protected:
  // Bytes that have come and gone in operations of one kind.
  std::uint64_t moved(CommOp op) const {
    const OpCounters all = exchanged(op);
    return all.bytes_sent + all.bytes_received;
  }

 private:
  std::shared_ptr<Comm> comm_;
};

}  // namespace starling::dist
