#include "starling/dist/strategy/uneven/gradient_aggregator.h"

#include "starling/base/error.h"

namespace starling::dist {
namespace {

constexpr std::size_t kRemembered = 4096;  // steps whose contributors are kept

}  // namespace

GradientAggregator::GradientAggregator(Comm& comm, int needed, std::int64_t window, std::vector<NamedTensor> weights,
                                       std::vector<std::unique_ptr<Comm>> lines)
    : comm_(comm),
      quorum_(needed, comm.size()),
      window_(static_cast<std::size_t>(window)),
      like_(std::move(weights)),
      waits_for_(static_cast<std::size_t>(comm.size()), -1) {
  for (int rank = 0; rank < comm.size(); ++rank) given_.push_back(flatten(like_));
  if (comm.size() > 1) coordinator_ = std::make_unique<Coordinator>(std::move(lines), *this);
}

void GradientAggregator::go_on_at(std::int64_t step) {
  const std::scoped_lock lock(mutex_);
  check(agreed_.empty(), "[backup_workers] expected to resume from a checkpoint between steps, got one within");
  quorum_.next(step);
}

bool GradientAggregator::closed(std::int64_t step) const {
  const std::scoped_lock lock(mutex_);
  return step < quorum_.open();
}

void GradientAggregator::contribute(const GradientStep& step) {
  {
    const std::scoped_lock lock(mutex_);
    for (auto& flat : given_[0]) {
      flat.rebind(step.gradients);
      flat.pack();
    }
    add(0, step.step, step.weight);
  }
  if (coordinator_) coordinator_->wake();
}

void GradientAggregator::take(GradientStep& step) {
  std::shared_ptr<std::vector<FlatTensors>> mean;
  {
    std::unique_lock lock(mutex_);
    const auto deadline = comm_.group().deadline;
    const CommTime began = CommClock::now();
    const RankProgress::Waiting waiting(comm_.rank_progress());
    if (!changed_.wait_for(lock, deadline, [&] { return broken_ || agreed_.contains(step.step); })) {
      comm_.abort("too few gradients came in time");
      fail("[backup_workers] expected {} gradients for step {} within {} ms, got {}", quorum_.needed(), step.step,
           deadline.count(), quorum_.contributors().size());
    }
    waited_ += CommClock::now() - began;
    if (broken_) coordinator_->rethrow();
    const Agreed& found = agreed_.at(step.step);
    mean = found.mean;
    step.weight = found.weight;
    taken(step.step);
  }
  // Safe without the lock: the shared buffers, perhaps being sent, are only read; the tensors belong to this rank
  // alone.
  for (auto& flat : *mean) {
    flat.rebind(step.gradients);
    flat.unpack();
  }
}

std::span<FlatTensors> GradientAggregator::payload_of(int worker, const Note& note) {
  if (note.kind != kOffer) return {};
  return given_[static_cast<std::size_t>(worker)];
}

void GradientAggregator::came(int worker, const Note& note) {
  const std::scoped_lock lock(mutex_);
  if (note.kind == kOffer) add(worker, note.step, note.weight);
  waits_for_[static_cast<std::size_t>(worker)] = note.step;
}

bool GradientAggregator::answer(Coordinator& lines) {
  const std::scoped_lock lock(mutex_);
  bool answered = false;
  for (std::size_t worker = 1; worker < waits_for_.size(); ++worker) {
    const auto found = agreed_.find(waits_for_[worker]);
    if (found == agreed_.end()) continue;
    lines.send(static_cast<int>(worker),
               {.step = found->first, .weight = found->second.weight, .newest = quorum_.open() - 1},
               found->second.mean);
    taken(waits_for_[worker]);
    waits_for_[worker] = -1;
    answered = true;
  }
  return answered;
}

void GradientAggregator::failed() {
  {
    const std::scoped_lock lock(mutex_);
    broken_ = true;
  }
  changed_.notify_all();
}

void GradientAggregator::add(int worker, std::int64_t step, double weight) {
  switch (quorum_.add(worker, step, weight)) {
    case Quorum::Verdict::counted: ++counted_; break;
    case Quorum::Verdict::late:
      ++late_;
      late_weight_ += weight;
      break;
    case Quorum::Verdict::repeated: ++repeated_; break;
  }
  close_if_ready();
}

// Mean in rank order, so that it depends on the contributors and not on arrival order.
std::shared_ptr<std::vector<FlatTensors>> GradientAggregator::mean_of(const std::vector<int>& who) const {
  auto mean = std::make_shared<std::vector<FlatTensors>>(flatten(like_));  // zeros
  for (std::size_t f = 0; f < mean->size(); ++f) {
    FlatTensors& sum = (*mean)[f];
    for (const int worker : who) {
      if (quorum_.weight(worker) == 0) continue;
      scale_add(sum.dtype(), sum.count(), quorum_.weight(worker) / quorum_.total(),
                given_[static_cast<std::size_t>(worker)][f].data(), 1, sum.data());
    }
  }
  return mean;
}

void GradientAggregator::close_if_ready() {
  if (!quorum_.enough()) return;
  if (agreed_.size() >= window_) {
    ++window_waits_;
    return;  // wait until the slowest has taken the oldest
  }
  const std::vector<int> who = quorum_.contributors();
  agreed_[quorum_.open()] = {quorum_.total(), mean_of(who), static_cast<int>(waits_for_.size())};
  history_[quorum_.open()] = who;
  if (history_.size() > kRemembered) history_.erase(history_.begin());
  ++closed_steps_;
  quorum_.next(quorum_.open() + 1);
  changed_.notify_all();
}

void GradientAggregator::taken(std::int64_t step) {
  const auto found = agreed_.find(step);
  if (--found->second.untaken > 0) return;
  agreed_.erase(found);
  close_if_ready();
}

std::vector<int> GradientAggregator::contributors(std::int64_t step) const {
  const std::scoped_lock lock(mutex_);
  const auto found = history_.find(step);
  return found == history_.end() ? std::vector<int>() : found->second;
}

OpCounters GradientAggregator::exchanged(CommOp op) const {
  OpCounters sum = coordinator_ ? coordinator_->exchanged(op) : OpCounters();
  const std::scoped_lock lock(mutex_);
  if (op == CommOp::recv) sum.wait_ns += static_cast<std::uint64_t>(waited_.count());
  return sum;
}

std::vector<LawCounter> GradientAggregator::counters() const {
  const std::scoped_lock lock(mutex_);
  return {{"closed", static_cast<double>(closed_steps_)}, {"contributions", static_cast<double>(counted_)},
          {"late", static_cast<double>(late_)},           {"late_samples", late_weight_},
          {"repeated", static_cast<double>(repeated_)},   {"window_waits", static_cast<double>(window_waits_)}};
}

}  // namespace starling::dist
