#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dist/comm_worlds.h"
#include "starling/dist/strategy/rank_strategy.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/starling.h"
#include "starling/train/run/weights_hash.h"

namespace starling::testing {

// Non-owning pointer: the communicators belong to the test's world.
inline std::shared_ptr<Comm> borrowed(Comm& comm) { return {std::shared_ptr<void>(), &comm}; }

using MakeStrategy = std::function<std::shared_ptr<dist::RankStrategy>(std::shared_ptr<Comm>)>;

// View of rows of a tensor.
inline Tensor rows_of_tensor(const Tensor& tensor, const Piece& piece) {
  Shape shape = tensor.shape();
  shape[0] = piece.size;
  return view_of(tensor, shape, tensor.strides(), piece.begin * tensor.strides()[0]);
}

// Inputs [n, 5] and targets [n, 2] of a regression that no linear weights fit exactly.
struct Batch2 {
  Tensor x, y;
};
inline Batch2 random_batch(std::int64_t rows, std::int64_t seed) {
  manual_seed(seed);
  return {cast(normal({rows, 5}), DType::f64), cast(normal({rows, 2}), DType::f64)};
}

// Minimal trainer of one rank for a linear model in f64; calls the strategy in the order of rank_strategy.h.
class SmallTrainer {
 public:
  Tensor w, b;
  optim::Sgd optimizer;
  std::shared_ptr<dist::RankStrategy> strategy;
  std::function<void(std::int64_t step)> slow{};  // called when a gradient is computed

  SmallTrainer(std::shared_ptr<dist::RankStrategy> of, const optim::SgdOptions& options, std::int64_t seed = 3)
      : w(make("w", {5, 2}, seed)), b(make("b", {2}, seed + 1)), optimizer({w, b}, options), strategy(std::move(of)) {
    for (const auto& tensor : {w, b}) gradients_.push_back(zeros(tensor.shape(), tensor.dtype()));
    if (strategy) strategy->begin(state());
  }

  dist::TrainedState state() {
    dist::TrainedState state{.weights = weights(), .rule = &optimizer};
    for (const auto& [name, tensor] : optimizer.state()) state.optimizer.push_back({name, tensor});
    return state;
  }
  std::vector<NamedTensor> weights() const { return {{"w", w}, {"b", b}}; }
  std::string hash() const { return train::weights_hash(weights()); }

  void go_on_at(std::int64_t step) {
    step_ = step;
    strategy->restored(step);
  }

  Tensor loss(const Tensor& x, const Tensor& y) const { return mse(add(matmul(x, w), b), y); }

  // Makes one step, given the whole batch; returns the weight of the update.
  double step(const Batch2& batch) {
    const std::int64_t n = batch.x.size(0), at = step_++;
    const Piece own = strategy ? strategy->rows(n) : Piece{0, n};
    const Tensor fields[] = {rows_of_tensor(batch.x, own), rows_of_tensor(batch.y, own)};
    auto weight = static_cast<double>(own.size);
    if (strategy && strategy->exchanges_gradients()) {
      weight = exchange(fields, at, weight);
    } else if (strategy && strategy->global_program()) {
      weight = static_cast<double>(strategy->program_rows(n));
      if (weight > 0) whole().call(fields, GlobalRows{strategy->program_rows(n)});
    } else if (own.size > 0) {
      if (slow) slow(at);
      whole().call(fields);
    }
    if (strategy) strategy->after_update(at, weight);
    return weight;
  }

  CompiledFunction& whole() {
    if (!whole_) {
      whole_ = std::make_unique<CompiledFunction>(
          [this](std::span<const Tensor> in) -> TensorList {
            Tensor value = loss(in[0], in[1]);
            value.backward();
            optimizer.step();
            return {value.detach()};
          },
          CompileOptions{.threads = 1, .strategy = strategy});
    }
    return *whole_;
  }

 private:
  static Tensor make(const char* name, const Shape& shape, std::int64_t seed) {
    manual_seed(seed);
    Tensor tensor = cast(normal(shape), DType::f64);
    tensor.set_name(name).set_requires_grad();
    return tensor;
  }

  double exchange(std::span<const Tensor> fields, std::int64_t at, double weight) {
    if (strategy->closed(at)) {
      weight = 0;
    } else if (weight > 0) {
      if (slow) slow(at);
      const Tensor value = loss(fields[0], fields[1]);
      const Tensor variables[] = {w, b};
      const TensorList found = gradients({&value, 1}, variables);
      for (std::size_t i = 0; i < 2; ++i) copy_into(gradients_[i], found[i]);
    }
    const NamedTensor named[] = {{"w", gradients_[0]}, {"b", gradients_[1]}};
    dist::GradientStep step{.step = at, .weight = weight, .gradients = named};
    strategy->exchange(step);
    if (strategy->updates() || step.weight == 0) return step.weight;
    w.set_grad(gradients_[0]);
    b.set_grad(gradients_[1]);
    optimizer.step();
    return step.weight;
  }

  std::vector<Tensor> gradients_;
  std::unique_ptr<CompiledFunction> whole_;
  std::int64_t step_ = 0;
};

inline double counter(const dist::RankStrategy& strategy, const std::string& name) {
  for (const auto& one : strategy.counters()) {
    if (one.name == name) return one.value;
  }
  ADD_FAILURE() << "no counter " << name;
  return -1;
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
  const auto va = a.to_vector(), vb = b.to_vector();
  double most = 0;
  for (std::size_t i = 0; i < va.size(); ++i) most = std::max(most, std::abs(va[i] - vb[i]));
  return most;
}

// Trains every rank for `steps` batches of `rows` rows, then calls look(trainer) on each, one after another.
inline void train_world(const dist::Comms& comms, const MakeStrategy& make, int steps, std::int64_t rows,
                        const optim::SgdOptions& options, const std::function<void(SmallTrainer&)>& look) {
  std::mutex mutex;
  run_ranks(comms, [&](Comm& comm) {
    SmallTrainer trainer(make(borrowed(comm)), options, 3 + comm.rank());
    for (int s = 0; s < steps; ++s) trainer.step(random_batch(rows, 100 + s));
    comm.barrier().wait();  // all bytes have moved, and are counted
    const std::scoped_lock lock(mutex);
    look(trainer);
  });
}

// The same training by one process without a strategy.
inline SmallTrainer trained_alone(int steps, std::int64_t rows, const optim::SgdOptions& options) {
  SmallTrainer trainer(nullptr, options, 3);
  for (int s = 0; s < steps; ++s) trainer.step(random_batch(rows, 100 + s));
  return trainer;
}

}  // namespace starling::testing
