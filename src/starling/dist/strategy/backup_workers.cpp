#include "starling/dist/strategy/backup_workers.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/dist/strategy/uneven/coordinator.h"
#include "starling/dist/strategy/uneven/gradient_aggregator.h"

namespace starling {
namespace {

int needed_of(const BackupWorkersOptions& options, int world) {
  if (options.quorum > 0) {
    check(options.quorum <= 1, "[backup_workers] expected a quorum of at most 1, got {}", options.quorum);
    return std::clamp(static_cast<int>(std::ceil(options.quorum * world - 1e-9)), 1, world);
  }
  if (world == 1) return 1;
  check(options.backups >= 0 && options.backups < world,
        "[backup_workers] expected fewer backups than the {} workers, got {}", world, options.backups);
  return world - static_cast<int>(options.backups);
}

}  // namespace

Settings BackupWorkersOptions::settings() {
  using O = BackupWorkersOptions;
  return {setting("backups", &O::backups, "workers that a step need not wait for", {.min = 0}),
          setting("quorum", &O::quorum, "instead of backups: the share of the workers that a step waits for; 0: unused",
                  {.min = 0, .max = 1}),
          setting("window", &O::window, "steps that the slowest worker may lie behind before the others wait for it",
                  {.min = 1, .max = 4096})};
}

struct BackupWorkers::Worker {
  Worker(std::unique_ptr<Comm> comm, const std::vector<NamedTensor>& weights)
      : buffers(dist::flatten(weights)), line(std::move(comm)) {}

  // Sends gradients, unless late, and receives the agreed mean.
  void exchange(dist::GradientStep& step, bool late) {
    for (auto& flat : buffers) {
      flat.rebind(step.gradients);
      if (!late) flat.pack();
    }
    const dist::Note note{.kind = late ? dist::GradientAggregator::kTake : dist::GradientAggregator::kOffer,
                          .step = step.step,
                          .weight = step.weight};
    line.tell(note, late ? std::span<dist::FlatTensors>() : std::span<dist::FlatTensors>(buffers));
    const dist::Note agreed = line.hear(buffers);
    check(agreed.step == step.step, "[backup_workers] expected the gradients of step {}, got those of {}", step.step,
          agreed.step);
    newest = agreed.newest;
    step.weight = agreed.weight;
    for (const auto& flat : buffers) flat.unpack();
  }

  std::vector<dist::FlatTensors> buffers;
  std::int64_t newest = -1;  // newest step known to be closed
  dist::WorkerLine line;
};

BackupWorkers::BackupWorkers(std::shared_ptr<Comm> comm, const BackupWorkersOptions& options)
    : dist::RankStrategy(std::move(comm)), options_(options), needed_(needed_of(options, world())) {
  check(options.window >= 1, "[backup_workers] expected a window of at least 1 step, got {}", options.window);
}

BackupWorkers::~BackupWorkers() = default;

std::string BackupWorkers::name() const { return fmt::format("backup_workers(first {} of {})", needed_, world()); }

void BackupWorkers::begin(const dist::TrainedState& state) {
  dist::RankStrategy::begin(state);
  buffers_ = state.buffers;
  auto lines = dist::make_lines(comm());
  if (rank() > 0) {
    worker_ = std::make_unique<Worker>(std::move(lines[0]), state.weights);
    return;
  }
  aggregator_ =
      std::make_unique<dist::GradientAggregator>(comm(), needed_, options_.window, state.weights, std::move(lines));
}

void BackupWorkers::restored(std::int64_t step) {
  if (aggregator_) {
    aggregator_->go_on_at(step);
  } else {
    worker_->newest = step - 1;
  }
  comm().barrier({.name = "backup_workers.restored"}).wait();
}

bool BackupWorkers::closed(std::int64_t step) { return worker_ ? step <= worker_->newest : aggregator_->closed(step); }

void BackupWorkers::exchange(dist::GradientStep& step) {
  ++exchanged_;
  const bool late = closed(step.step);
  if (late) ++skipped_;
  if (worker_) return worker_->exchange(step, late);
  if (!late) aggregator_->contribute(step);
  aggregator_->take(step);
}

void BackupWorkers::settle() { dist::broadcast_tensors(comm(), buffers_, 0, "backup_workers.buffers"); }

std::vector<int> BackupWorkers::contributors(std::int64_t step) const {
  return aggregator_ ? aggregator_->contributors(step) : std::vector<int>();
}

dist::OpCounters BackupWorkers::exchanged(CommOp op) const {
  const dist::OpCounters own = dist::RankStrategy::exchanged(op);
  if (aggregator_) return own + aggregator_->exchanged(op);
  return worker_ ? own + worker_->line.exchanged(op) : own;
}

std::vector<dist::LawCounter> BackupWorkers::counters() const {
  std::vector<dist::LawCounter> all{{"steps", static_cast<double>(exchanged_)},
                                    {"taken_without_computing", static_cast<double>(skipped_)},
                                    {"needed", static_cast<double>(needed_)}};
  if (!aggregator_) return all;
  for (auto& one : aggregator_->counters()) all.push_back(std::move(one));
  return all;
}

}  // namespace starling
