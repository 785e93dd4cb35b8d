#include "starling/dist/strategy/grouped.h"

#include "starling/base/error.h"
#include "starling/dist/strategy/state/flat_tensors.h"

namespace starling::dist {
namespace {

std::shared_ptr<Comm> part(Comm& comm, int color, int key, const char* what) {
  return std::shared_ptr<Comm>(comm.split(color, key, {.name = what}));
}

}  // namespace

// Leaders form one group. Every other rank gets a group of one, where the same strategy only tells when leaders meet.
Grouped::Grouped(std::shared_ptr<Comm> comm, const Topology& topology, const AllReduceOptions& inside,
                 const StrategyMaker& between)
    : RankStrategy(std::move(comm)), topology_(topology), coded_(!inside.codec.none()) {
  topology_.validate(world());
  check(topology_.servers() == 0, "[grouped] expected workers only, got {}", topology_.describe());
  const Topology::RankPosition own = position();
  inside_ = std::make_unique<AllReduce>(part(this->comm(), own.group, own.member, "grouped.inside"), inside);
  between_ = between(part(this->comm(), own.member == 0 ? 0 : 1 + rank(), own.group, "grouped.between"));
  check(!between_->exchanges_gradients() && !between_->global_program(),
        "[grouped] expected a strategy between groups that brings weights together (local_sgd, easgd), got {}",
        between_->name());
}

std::string Grouped::name() const { return fmt::format("grouped({}, {})", topology_.describe(), between_->name()); }

std::unique_ptr<runtime::Program> Grouped::build(const graph::Graph& global, const Container& container,
                                                 const runtime::BuildOptions& options) {
  return inside_->build(global, container, options);
}

// Only leaders pass their tensors to the strategy between groups: on other ranks it has none to change.
void Grouped::begin(const TrainedState& state) {
  RankStrategy::begin(state);
  if (coded_) inside_->begin(state);
  if (position().member == 0) between_->begin(state);
  weights_ = shared_ = state.weights;
  shared_.insert(shared_.end(), state.buffers.begin(), state.buffers.end());
  shared_.insert(shared_.end(), state.optimizer.begin(), state.optimizer.end());
}

void Grouped::restored(std::int64_t step) {
  if (position().member == 0) between_->restored(step);
}

void Grouped::share_in_group(const char* what) {
  ++handed_on_;
  broadcast_tensors(inside_->comm(), shared_, 0, what);
}

void Grouped::after_update(std::int64_t step, double weight) {
  inside_->after_update(step, weight);
  if (position().member == 0) between_->after_update(step, weight);
  if (between_->meets_after(step)) share_in_group("grouped.meeting");
}

bool Grouped::meets_after(std::int64_t step) const { return between_->meets_after(step); }

void Grouped::settle() {
  if (position().member == 0) between_->settle();
  share_in_group("grouped.settle");
}

void Grouped::regrouped() {
  if (position().member == 0) between_->regrouped();
  share_in_group("grouped.regrouped");
  // Residuals of codecs: every group has got the sum over all of them.
  inside_->regrouped();
  for (const auto& [name, tensor] : inside_->tensors()) {
    if (inside_->sums_over_ranks(name))
      scale_add(tensor.dtype(), tensor.numel(), 1.0 / groups(), tensor.raw(), 0, tensor.raw());
  }
}

std::vector<ModelSum> Grouped::model() {
  if (position().member > 0) return {};
  return over_first_members(between_->model(), static_cast<int>(topology_.workers_per_group));
}

void Grouped::show() {
  if (position().member == 0) between_->show();
  broadcast_tensors(inside_->comm(), weights_, 0, "grouped.show");
}

void Grouped::unshow() {
  if (position().member == 0) between_->unshow();
  broadcast_tensors(inside_->comm(), weights_, 0, "grouped.unshow");
}

bool Grouped::settles_to_evaluate() const { return between_->settles_to_evaluate(); }

// Equal on all ranks, of which only leaders know the state between groups: with several groups, or a strategy whose
// model is not the weights (a centre), the answer is always no.
bool Grouped::settled() const { return topology_.worker_groups == 1 && !between_->settling_changes(); }

std::vector<NamedTensor> Grouped::tensors() const {
  std::vector<NamedTensor> all = inside_->tensors();
  if (position().member > 0) return all;
  for (const NamedTensor& one : between_->tensors()) all.push_back(one);
  return all;
}

OpCounters Grouped::exchanged(CommOp op) const {
  return RankStrategy::exchanged(op) + inside_->exchanged(op) + between_->exchanged(op);
}

std::vector<LawCounter> Grouped::counters() const {
  std::vector<LawCounter> all{{"group", static_cast<double>(position().group)},
                              {"member", static_cast<double>(position().member)},
                              {"handed_on", static_cast<double>(handed_on_)}};
  for (const auto& one : inside_->counters()) all.push_back({"inside." + one.name, one.value});
  if (position().member > 0) return all;
  for (const auto& one : between_->counters()) all.push_back({"between." + one.name, one.value});
  return all;
}

}  // namespace starling::dist
