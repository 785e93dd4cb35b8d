#include "starling/dist/strategy/server_worker.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/health/verdict.h"
#include "starling/dist/strategy/flat_tensors.h"
#include "starling/ops/api/creation.h"

namespace starling::dist {

ps::ClockOptions ServerRule::clock(int workers) const {
  check(backups >= 0 && backups < workers, "[servers] expected fewer backups than the {} workers, got {}", workers,
        backups);
  return {.workers = workers,
          .bound = bound,
          .merge = merge,
          .quorum = backups > 0 ? workers - static_cast<int>(backups) : 0};
}

std::shared_ptr<RankStrategy> ServerMaker::operator()(std::shared_ptr<Comm> comm) const {
  return std::make_shared<ServerWorker>(std::move(comm), name, rule);
}

const ServerRule* server_rule(const StrategyMaker& maker) {
  const auto* found = maker.target<ServerMaker>();
  return found ? &found->rule : nullptr;
}

ServerWorker::ServerWorker(std::shared_ptr<Comm> comm, std::string name, const ServerRule& rule)
    : RankStrategy(std::move(comm)), kind_(std::move(name)), rule_(rule) {
  check(world() == 1, "[{}] expected a communicator of this worker alone, got one of {} ranks", kind_, world());
}

std::string ServerWorker::name() const { return kind_; }

void ServerWorker::begin(const TrainedState& state) {
  check(connect_ != nullptr, "[{}] expected a way to connect with its servers, got none", kind_);
  check(state.rule != nullptr, "[{}] expected the optimizer whose rate its pushes carry, got none", kind_);
  client_ = connect_(state);
  weights_ = state.weights;
  optimizer_ = state.rule;
  lr_scale_.assign(weights_.size(), 1);
  for (const auto& group : optimizer_->groups()) {
    for (const Tensor& parameter : group.parameters) {
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        if (same(weights_[i].tensor, parameter)) lr_scale_[i] = group.lr_scale;
      }
    }
  }
  if (rule_.n_push == 1) return;
  for (const auto& [name, tensor] : weights_) kept_.push_back({name, zeros(tensor.shape(), tensor.dtype())});
}

void ServerWorker::fetch(std::int64_t clock) {
  for (std::size_t i = 0; i < weights_.size(); ++i) client_->pull(i, weights_[i].tensor, clock);
  client_->wait_all();
  ++fetches_;
}

void ServerWorker::before_step(std::int64_t step) {
  const bool due = fetches_at(step);
  if (aside_) client_->join(step);
  aside_ = false;
  if (due) fetch(step);
}

// Last layers first, as a backward pass makes them; the client serves the first ones first.
void ServerWorker::push(std::span<const NamedTensor> gradients, double weight, std::int64_t clock) {
  const ps::PushOptions how{.clock = clock, .weight = weight, .lr = optimizer_->lr()};
  for (std::size_t i = gradients.size(); i-- > 0;) client_->push(i, gradients[i].tensor, how);
  client_->wait_all();
  ++pushes_;
}

void ServerWorker::add_up(const GradientStep& step) {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const Tensor& sum = kept_[i].tensor;
    scale_add(sum.dtype(), sum.numel(), 1, step.gradients[i].tensor.raw(), 1, sum.raw());
  }
  kept_weight_ += step.weight;
  ++kept_steps_;
}

void ServerWorker::descend(std::span<const NamedTensor> gradients) const {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& weight = weights_[i].tensor;
    scale_add(weight.dtype(), weight.numel(), -optimizer_->lr() * lr_scale_[i], gradients[i].tensor.raw(), 1,
              weight.raw());
  }
}

void ServerWorker::exchange(GradientStep& step) {
  if (step.weight > 0 && !first_non_finite(step.gradients).empty()) {
    ++not_finite_;
    step.weight = 0;
  }
  clock_ = step.step;
  ++steps_;
  const bool any = step.weight > 0;
  const bool adds_up = rule_.n_push > 1;
  if (any && adds_up) add_up(step);
  if (any && !adds_up) push(step.gradients, step.weight, clock_);
  if (kept_steps_ >= rule_.n_push) push_kept(clock_);
  if (!any || adds_up) client_->tick(clock_);
  if (any && !fetches_at(clock_ + 1)) descend(step.gradients);
}

void ServerWorker::push_kept(std::int64_t clock) {
  if (kept_steps_ == 0) return;
  push(kept_, kept_weight_, clock);
  for (const auto& [name, sum] : kept_) copy_into(sum, zeros(sum.shape(), sum.dtype()));
  kept_weight_ = 0;
  kept_steps_ = 0;
}

// Workers in turn stay: all of them make the same steps, and whoever came back first would go on alone.
void ServerWorker::settle() {
  if (aside_) return;
  push_kept(clock_ + 1);
  if (rule_.in_turn) return;
  client_->leave();
  aside_ = true;
}

std::vector<LawCounter> ServerWorker::counters() const {
  std::vector<LawCounter> all{{"steps", static_cast<double>(steps_)},
                              {"pushes", static_cast<double>(pushes_)},
                              {"fetches", static_cast<double>(fetches_)},
                              {"not_finite", static_cast<double>(not_finite_)}};
  for (const auto& [name, value] : client_ ? client_->counters() : ps::Counters{})
    all.push_back({"client." + name, value});
  return all;
}

// Traffic with the servers, told as messages: what was pushed as sent, what was fetched as received.
OpCounters ServerWorker::exchanged(CommOp op) const {
  OpCounters own;
  if (!client_ || (op != CommOp::send && op != CommOp::recv)) return own;
  const ps::Counters told = client_->counters();
  if (op == CommOp::send) {
    own.bytes_sent = static_cast<std::uint64_t>(ps::counter(told, "bytes_out"));
    own.calls = static_cast<std::uint64_t>(pushes_);
    return own;
  }
  own.bytes_received = static_cast<std::uint64_t>(ps::counter(told, "bytes_in"));
  own.wait_ns = static_cast<std::uint64_t>(1e9 * ps::counter(told, "wait_seconds"));
  own.calls = static_cast<std::uint64_t>(fetches_);
  return own;
}

}  // namespace starling::dist
