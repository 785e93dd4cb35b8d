#include "starling/dist/strategy/backup_workers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "starling/base/error.h"
#include "starling/dist/strategy/coordinator.h"
#include "starling/dist/strategy/quorum.h"

namespace starling {
namespace {

enum Kind : std::int64_t { kOffer = 1, kTake = 2 };

constexpr std::size_t kRemembered = 4096;  // steps whose contributors are kept

int needed_of(const BackupWorkersOptions& options, int world) {
  if (options.quorum > 0) {
    check(options.quorum <= 1, "[backup_workers] expected a quorum of at most 1, got {}", options.quorum);
    return std::clamp(static_cast<int>(std::ceil(options.quorum * world - 1e-9)), 1, world);
  }
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

// Where the gradients of all ranks meet. Rank 0's own thread and the coordinator's come here, one at a time.
struct BackupWorkers::Desk final : Coordinator::Handler {
  struct Agreed {
    double weight = 0;
    std::shared_ptr<std::vector<FlatTensors>> mean;
    int untaken = 0;  // ranks that have not had it yet
  };

  Desk(int needed, int world, std::int64_t window, const std::vector<NamedTensor>& weights)
      : quorum(needed, world),
        window(static_cast<std::size_t>(window)),
        waits_for(static_cast<std::size_t>(world), -1) {
    for (int rank = 0; rank < world; ++rank) given.push_back(flatten(weights));
    like = weights;
  }

  std::span<FlatTensors> payload_of(int worker, const Note& note) override {
    if (note.kind != kOffer) return {};
    return given[static_cast<std::size_t>(worker)];
  }

  void came(int worker, const Note& note) override {
    const std::scoped_lock lock(mutex);
    if (note.kind == kOffer) add(worker, note.step, note.weight);
    waits_for[static_cast<std::size_t>(worker)] = note.step;
  }

  bool answer(Coordinator& lines) override {
    const std::scoped_lock lock(mutex);
    bool answered = false;
    for (std::size_t worker = 1; worker < waits_for.size(); ++worker) {
      const auto found = agreed.find(waits_for[worker]);
      if (found == agreed.end()) continue;
      lines.send(static_cast<int>(worker),
                 {.step = found->first, .weight = found->second.weight, .newest = quorum.open() - 1},
                 found->second.mean);
      taken(waits_for[worker]);
      waits_for[worker] = -1;
      answered = true;
    }
    return answered;
  }

  void failed() override {
    {
      const std::scoped_lock lock(mutex);
      broken = true;
    }
    changed.notify_all();
  }

  // With the lock.
  void add(int worker, std::int64_t step, double weight) {
    switch (quorum.add(worker, step, weight)) {
      case Quorum::Verdict::counted: ++counted; break;
      case Quorum::Verdict::late:
        ++late;
        late_weight += weight;
        break;
      case Quorum::Verdict::repeated: ++repeated; break;
    }
    close_if_ready();
  }

  // The mean is taken in rank order, so that it depends on who contributed and not on the order of arrival.
  void close_if_ready() {
    if (!quorum.enough()) return;
    if (agreed.size() >= window) {
      ++waited;
      return;  // until the slowest has taken the oldest
    }
    auto mean = std::make_shared<std::vector<FlatTensors>>(flatten(like));
    const std::vector<int> who = quorum.contributors();
    for (std::size_t f = 0; f < mean->size(); ++f) {
      FlatTensors& sum = (*mean)[f];
      std::memset(sum.data(), 0, static_cast<std::size_t>(sum.bytes()));
      for (const int worker : who) {
        if (quorum.weight(worker) == 0) continue;
        scale_add(sum.dtype(), sum.count(), quorum.weight(worker) / quorum.total(),
                  given[static_cast<std::size_t>(worker)][f].data(), 1, sum.data());
      }
    }
    agreed[quorum.open()] = {quorum.total(), std::move(mean), static_cast<int>(waits_for.size())};
    history[quorum.open()] = who;
    if (history.size() > kRemembered) history.erase(history.begin());
    ++closed_steps;
    quorum.next(quorum.open() + 1);
    changed.notify_all();
  }

  void taken(std::int64_t step) {
    const auto found = agreed.find(step);
    if (--found->second.untaken > 0) return;
    agreed.erase(found);
    close_if_ready();
  }

  std::mutex mutex;
  std::condition_variable changed;
  Quorum quorum;
  std::size_t window;
  std::vector<NamedTensor> like;
  std::vector<std::vector<FlatTensors>> given;  // by rank
  std::map<std::int64_t, Agreed> agreed;        // steps that some rank has not taken yet
  std::map<std::int64_t, std::vector<int>> history;
  std::vector<std::int64_t> waits_for;  // step that a worker wants to have; -1: none
  bool broken = false;
  std::int64_t counted = 0, late = 0, repeated = 0, closed_steps = 0, waited = 0;
  double late_weight = 0;
  std::unique_ptr<Coordinator> coordinator;  // ends before what it works with
};

struct BackupWorkers::Seat {
  Seat(std::unique_ptr<Comm> comm, const std::vector<NamedTensor>& weights)
      : buffers(flatten(weights)), line(std::move(comm)) {}
  std::vector<FlatTensors> buffers;
  std::int64_t newest = -1;  // last step known to be closed
  WorkerLine line;
};

BackupWorkers::BackupWorkers(std::shared_ptr<Comm> comm, const BackupWorkersOptions& options)
    : RankStrategy(std::move(comm)), options_(options), needed_(needed_of(options, world())) {
  check(options.window >= 1, "[backup_workers] expected a window of at least 1 step, got {}", options.window);
}

BackupWorkers::~BackupWorkers() = default;

std::string BackupWorkers::name() const { return fmt::format("backup_workers(first {} of {})", needed_, world()); }

void BackupWorkers::begin(const TrainedState& state) {
  RankStrategy::begin(state);
  buffers_ = state.buffers;
  auto lines = make_lines(comm());
  if (rank() > 0) {
    seat_ = std::make_unique<Seat>(std::move(lines[0]), state.weights);
    return;
  }
  desk_ = std::make_unique<Desk>(needed_, world(), options_.window, state.weights);
  if (world() > 1) desk_->coordinator = std::make_unique<Coordinator>(std::move(lines), *desk_);
}

void BackupWorkers::restored(std::int64_t step) {
  if (desk_) {
    const std::scoped_lock lock(desk_->mutex);
    check(desk_->agreed.empty(), "[backup_workers] expected to go on from a checkpoint between steps, got one within");
    desk_->quorum.next(step);
  } else {
    seat_->newest = step - 1;
  }
  comm().barrier({.name = "backup_workers.restored"}).wait();
}

bool BackupWorkers::closed(std::int64_t step) {
  if (seat_) return step <= seat_->newest;
  const std::scoped_lock lock(desk_->mutex);
  return step < desk_->quorum.open();
}

void BackupWorkers::exchange(GradientStep& step) {
  ++exchanged_;
  const bool late = closed(step.step);
  if (late) ++skipped_;
  if (seat_) {
    for (auto& flat : seat_->buffers) {
      flat.rebind(step.gradients);
      if (!late) flat.pack();
    }
    const Note note{.kind = late ? kTake : kOffer, .step = step.step, .weight = step.weight};
    seat_->line.tell(note, late ? std::span<FlatTensors>() : std::span<FlatTensors>(seat_->buffers));
    const Note agreed = seat_->line.hear(seat_->buffers);
    check(agreed.step == step.step, "[backup_workers] expected the gradients of step {}, got those of {}", step.step,
          agreed.step);
    seat_->newest = agreed.newest;
    step.weight = agreed.weight;
    for (const auto& flat : seat_->buffers) flat.unpack();
    return;
  }
  std::shared_ptr<std::vector<FlatTensors>> mean;
  {
    std::unique_lock lock(desk_->mutex);
    auto& own = desk_->given[0];
    if (!late) {
      for (auto& flat : own) {
        flat.rebind(step.gradients);
        flat.pack();
      }
      desk_->add(0, step.step, step.weight);
    }
    const auto there = [&] { return desk_->broken || desk_->agreed.contains(step.step); };
    if (desk_->coordinator) {
      lock.unlock();
      desk_->coordinator->wake();
      lock.lock();
    }
    if (!desk_->changed.wait_for(lock, comm().group().deadline, there)) {
      comm().abort("too few gradients came in time");
      fail("[backup_workers] expected {} gradients for step {} within {} ms, got {}", needed_, step.step,
           comm().group().deadline.count(), desk_->quorum.contributors().size());
    }
    if (desk_->broken) desk_->coordinator->rethrow();
    mean = desk_->agreed.at(step.step).mean;
    step.weight = desk_->agreed.at(step.step).weight;
    desk_->taken(step.step);
  }
  // Its buffers may be on their way to others meanwhile; the tensors are of this rank alone.
  for (auto& flat : *mean) {
    flat.rebind(step.gradients);
    flat.unpack();
  }
}

void BackupWorkers::settle() { broadcast_tensors(comm(), buffers_, 0, "backup_workers.buffers"); }

std::vector<int> BackupWorkers::contributors(std::int64_t step) const {
  if (!desk_) return {};
  const std::scoped_lock lock(desk_->mutex);
  const auto found = desk_->history.find(step);
  return found == desk_->history.end() ? std::vector<int>() : found->second;
}

std::vector<LawCounter> BackupWorkers::counters() const {
  std::vector<LawCounter> all{{"steps", static_cast<double>(exchanged_)},
                              {"taken_without_computing", static_cast<double>(skipped_)},
                              {"needed", static_cast<double>(needed_)}};
  if (!desk_) return all;
  const std::scoped_lock lock(desk_->mutex);
  all.push_back({"closed", static_cast<double>(desk_->closed_steps)});
  all.push_back({"contributions", static_cast<double>(desk_->counted)});
  all.push_back({"late", static_cast<double>(desk_->late)});
  all.push_back({"late_samples", desk_->late_weight});
  all.push_back({"repeated", static_cast<double>(desk_->repeated)});
  all.push_back({"window_waits", static_cast<double>(desk_->waited)});
  return all;
}

}  // namespace starling
