#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/ops/sharding.h"
#include "starling/optim/optimizer.h"
#include "starling/runtime/program.h"
#include "starling/tensor/named_tensor.h"

namespace starling {

// What a strategy keeps equal, or brings together, among the ranks. All ranks give the same names in the same order.
struct TrainedState {
  std::vector<NamedTensor> weights{};    // parameters, by their names in the network
  std::vector<NamedTensor> buffers{};    // running statistics and the like
  std::vector<NamedTensor> optimizer{};  // its state
  optim::Optimizer* rule = nullptr;      // the optimizer itself, for strategies that make updates(); null: unknown
};

// The gradients of one step of this rank, in the order of the weights: means over `weight` samples (or tokens).
// exchange() overwrites them and the weight with what the update takes: the agreed mean and the samples it is of. A
// weight of 0 afterwards: nobody had any, there is nothing to update. A rank without rows, or one whose step is
// closed(), gives a weight of 0 and gradients of any value, but in memory of their own.
struct GradientStep {
  std::int64_t step = 0;  // of updates, counted from 0 over the whole run; the same on all ranks
  double weight = 0;
  std::span<const NamedTensor> gradients{};
};

// One count of what a technique promises, always kept: pushes, syncs, bytes, dropped gradients, the largest gap.
struct LawCounter {
  std::string name;
  double value = 0;
};

OpCounters operator+(OpCounters a, const OpCounters& b);

// A strategy as one rank of a world runs it. Every rank, a thread or a process, has a network, an optimizer and a
// trainer of its own and is given its own rows of every batch; the strategy is the only thing that knows of the others.
//
// A trainer calls, in this order: begin once, with tensors that live as long as the run; after it has loaded a
// checkpoint, where there is one, restored. Then for each step
//   either, without exchanges_gradients(), the program alone: where global_program() by CompiledFunction::call with
//     GlobalRows{program_rows(batch)}, also on ranks without rows, since collectives are ops in it; else with its own
//     rows, and not at all without any;
//   or the backward program (not without rows, nor where closed()), exchange, and, unless updates(), the update
//   program; and after_update in any case.
// settle when one model is to be had: at the end, and before evaluations where settles_to_evaluate(); show and unshow
// around them where shows_to_evaluate().
// One thread per rank; an error of one rank aborts the communicator, so that the others end too.
class RankStrategy : public Strategy {
 public:
  explicit RankStrategy(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) {}

  Comm& comm() const { return *comm_; }
  const std::shared_ptr<Comm>& shared_comm() const { return comm_; }
  int rank() const { return comm_->rank(); }
  int world() const { return comm_->size(); }

  // The rows of a batch of `batch` that are this rank's, and how many rows the ranks of its global program have
  // together: all of them, or those of its group. Loaders cut in the same way when they are given rank(), world(),
  // shards() and groups() as LoaderOptions.
  Piece rows(std::int64_t batch) const;
  std::int64_t program_rows(std::int64_t batch) const;
  virtual int shards() const { return 0; }  // > 0: deterministic, cut by so many logical shards
  virtual int groups() const { return 1; }  // ranks lie in so many groups of equal size, one after another

  // Programs are traced with the shapes of the whole batch and partitioned, so that means are those of all ranks. Else
  // they are traced with this rank's rows and know nothing of others; noise should then differ from rank to rank.
  virtual bool global_program() const { return false; }

  // Whether ranks make every step at about the same time. Where not, a trainer makes no collective calls of its own in
  // ordinary steps: they would make a fast rank wait for a slow one.
  virtual bool lockstep() const { return false; }

  // A program of this rank alone, unless a strategy wants otherwise.
  std::unique_ptr<Program> build(const Graph& global, const Container& container, const BuildOptions& options) override;

  // Collective. Rank 0's values everywhere, unless a strategy wants otherwise.
  virtual void begin(const TrainedState& state);
  // Collective: the tensors of begin and tensors() have been given the values of a checkpoint taken at this step.
  virtual void restored([[maybe_unused]] std::int64_t step) {}

  // Collective, after restored: the checkpoint is one of another number of ranks, and all have been given rank 0's
  // part.
  virtual void regrouped() {}

  virtual bool exchanges_gradients() const { return false; }
  // Whether this rank leaves out its rows of this step: the gradients are settled without it, or it has fallen so far
  // behind that it had better catch up. Asked by trainers whose programs are the rank's own.
  virtual bool closed([[maybe_unused]] std::int64_t step) { return false; }
  virtual void exchange([[maybe_unused]] GradientStep& step) {}
  // exchange() makes the update too, by TrainedState::rule's hyper-parameters; clipping and loss scales are not for it.
  virtual bool updates() const { return false; }

  // `weight`: samples (or tokens) that the update of this rank was made of: of all ranks of a global program, else its
  // own; after exchange() what that says. 0: it made none.
  virtual void after_update([[maybe_unused]] std::int64_t step, [[maybe_unused]] double weight) {}

  // Whether after_update of this step may change the weights by what others have: the same answer on all ranks.
  virtual bool meets_after([[maybe_unused]] std::int64_t step) const { return false; }
  // Whether ranks do so one by one, each when it is ready; else all of them come together then.
  virtual bool meets_alone() const { return false; }

  // Collective: afterwards the weights are those that the run stands for, the same on all ranks.
  virtual void settle() {}
  virtual bool settles_to_evaluate() const { return false; }
  // Whether settle() would leave other weights than those that evaluations have seen: the same answer on all ranks.
  virtual bool settling_changes() const { return false; }
  // Whether the model to be evaluated is another than the weights that ranks train: show() puts it in their place, the
  // same on all ranks, and unshow() the rank's own back. Collective, both.
  virtual bool shows_to_evaluate() const { return false; }
  virtual void show() {}
  virtual void unshow() {}
  // Whether the trained state of all ranks is equal now, so that rank 0's alone makes a checkpoint; else a checkpoint
  // holds that of every rank.
  virtual bool settled() const { return true; }

  // Of this rank, for checkpoints: what it needs to go on beside the trained state. The same names from begin on;
  // writing into them restores it.
  virtual std::vector<NamedTensor> tensors() const { return {}; }

  virtual std::vector<LawCounter> counters() const { return {}; }

  // What this rank's exchanges of one kind have cost so far, in whatever groups they were made.
  virtual OpCounters exchanged(CommOp op) const { return comm_->journal().counters(op); }

 private:
  std::shared_ptr<Comm> comm_;
};

}  // namespace starling
