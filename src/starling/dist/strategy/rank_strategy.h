#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/dist/comm/comm.h"
#include "starling/runtime/program.h"
#include "starling/tensor/named_tensor.h"

namespace starling {

// What a strategy keeps equal, or brings together, among the ranks.
struct TrainedState {
  std::vector<NamedTensor> weights{};    // parameters, by their names in the network
  std::vector<NamedTensor> buffers{};    // running statistics and the like
  std::vector<NamedTensor> optimizer{};  // its state
};

// The gradients of one step of this rank, in the order of the weights; exchange() writes into them what the update
// takes.
struct GradientStep {
  std::int64_t step = 0;
  double weight = 0;  // samples (or tokens) they are the mean of; may be 0 where this rank had no data
  std::span<const NamedTensor> gradients{};
};

// One count of what a technique promises, always kept: pushes, syncs, bytes, dropped gradients, the largest gap.
struct LawCounter {
  std::string name;
  double value = 0;
};

// A strategy as one rank of a world runs it. Every rank, a thread or a process, has a network, an optimizer and a
// trainer of its own and is given its own rows of every batch; the strategy is the only thing that knows of the others.
//
// A trainer calls, in this order: begin once; then for each step either the program alone (collectives are ops in it),
// or, where exchanges_gradients(), the backward program, exchange and the update program; after_update; and settle when
// one model is to be had: at the end and before evaluations where settles_to_evaluate().
class RankStrategy : public Strategy {
 public:
  explicit RankStrategy(std::shared_ptr<Comm> comm) : comm_(std::move(comm)) {}

  Comm& comm() const { return *comm_; }
  const std::shared_ptr<Comm>& shared_comm() const { return comm_; }

  // Programs are traced with the shapes of the whole batch and partitioned, so that means are those of all ranks. Else
  // they are traced with this rank's rows and know nothing of others.
  virtual bool global_program() const { return false; }

  // Collective. Rank 0's values everywhere, unless a strategy wants otherwise. The tensors live as long as the run.
  virtual void begin(const TrainedState& state);

  virtual bool exchanges_gradients() const { return false; }
  // Whether the gradients of this step are settled without this rank's: it need not compute them.
  virtual bool closed([[maybe_unused]] std::int64_t step) { return false; }
  virtual void exchange([[maybe_unused]] GradientStep& step) {}

  virtual void after_update([[maybe_unused]] std::int64_t step) {}

  // Collective: afterwards the weights are those that the run stands for, the same on all ranks.
  virtual void settle() {}
  // Whether all ranks hold the same values after this step, so that rank 0's alone make a checkpoint.
  virtual bool settled() const { return true; }

  // Of this rank, for checkpoints: what it needs to go on beside the trained state.
  virtual std::vector<NamedTensor> tensors() const { return {}; }

  virtual std::vector<LawCounter> counters() const { return {}; }

 private:
  std::shared_ptr<Comm> comm_;
};

}  // namespace starling
