#include "starling/dist/strategy/servers/group_worker.h"

#include <iterator>

#include "starling/base/error.h"
#include "starling/dist/health/verdict.h"
#include "starling/dist/strategy/state/flat_tensors.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"

namespace starling::dist {

GroupWorker::GroupWorker(std::shared_ptr<Comm> alone, std::shared_ptr<Comm> group, std::shared_ptr<ServerWorker> server,
                         std::string name, const ServerRule& rule)
    : ServedStrategy(std::move(alone)),
      group_(std::move(group)),
      server_(std::move(server)),
      kind_(std::move(name)),
      rule_(rule) {
  check((group_->rank() == 0) == (server_ != nullptr), "[{}] expected a connection with the servers of member 0 alone",
        kind_);
  if (server_) server_->look_at_gradients(false);  // members look at theirs before they are added up
}

void GroupWorker::begin(const TrainedState& state) {
  weights_ = state.weights;
  if (server_) server_->begin(state);
}

void GroupWorker::take_portion(std::int64_t portion, bool alone, std::int64_t pauses) {
  if (server_) server_->take_portion(portion, alone, pauses);
}

void GroupWorker::before_step(std::int64_t step) {
  if (server_) server_->before_step(step);
  broadcast_tensors(*group_, weights_, 0, "group.weights");
}

// Weight of the group's step; 0: there is none, for want of rows or because of one member's values, which all are told
// of. A member without rows has a weight of 0 and gradients of zeros.
double GroupWorker::agree(GradientStep& step) {
  if (looks() && step.not_finite.empty()) step.not_finite = first_non_finite(step.gradients);
  double sums[] = {step.weight, step.not_finite.empty() ? 0.0 : 1.0};
  group_->all_reduce(sums, sums, std::size(sums), DType::f64, ReduceOp::sum, {.name = "group.weight"}).wait();
  if (sums[1] > 0 && step.not_finite.empty()) step.not_finite = "a gradient of another member";
  return sums[1] > 0 ? 0 : sums[0];
}

// A member without rows adds zeros.
void GroupWorker::exchange(GradientStep& step) {
  const double own = step.weight, all = agree(step);
  step.weight = all;
  if (all == 0 && server_) server_->exchange(step);
  if (all == 0) return;
  std::vector<NamedTensor> means;
  for (const auto& [name, gradient] : step.gradients) {
    const Tensor mean = own > 0 ? mul(dense(gradient), own / all) : zeros(gradient.shape(), gradient.dtype());
    group_->all_reduce(mean.raw(), mean.raw(), mean.numel(), mean.dtype(), ReduceOp::sum, {.name = "group.gradient"})
        .wait();
    means.push_back({name, mean});
  }
  GradientStep whole{.step = step.step, .weight = all, .gradients = means};
  if (server_) server_->exchange(whole);
  step.weight = whole.weight;
}

void GroupWorker::settle() {
  if (server_) server_->settle();
}

std::vector<LawCounter> GroupWorker::counters() const {
  std::vector<LawCounter> all = server_ ? server_->counters() : std::vector<LawCounter>{};
  all.push_back({"members", static_cast<double>(group_->size())});
  const OpCounters inside = group_->journal().counters(CommOp::all_reduce);
  all.push_back({"inside.bytes_sent", static_cast<double>(inside.bytes_sent)});
  return all;
}

OpCounters GroupWorker::exchanged(CommOp op) const {
  const OpCounters inside = group_->journal().counters(op);
  return server_ ? inside + server_->exchanged(op) : inside;
}

}  // namespace starling::dist
