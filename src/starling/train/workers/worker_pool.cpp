#include "starling/train/workers/worker_pool.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "starling/base/error.h"
#include "starling/dist/comm/call.h"

namespace starling::train {
namespace {

using namespace std::chrono_literals;

constexpr auto kSlice = 100ms;   // between two looks at what else there is to do
constexpr auto kFarewell = 10s;  // for workers to leave
constexpr int kMissed = 3;       // heartbeats of a worker that is lost
constexpr int kMissedOfNeeded = 5;
constexpr std::int64_t kNoLimit = std::int64_t{1} << 32;  // evaluations of a procedure

// The supervision of all ranks finds after three heartbeats who is silent, and names it with its rank and its host.
// This comes first only where the run goes on.
std::chrono::milliseconds silence(const WorkerPoolOptions& options) {
  return (options.rule.goes_on() ? kMissed : kMissedOfNeeded) * options.heartbeat;
}

// A run that needs every worker has a deadline of its own.
std::chrono::milliseconds join_within(const WorkerPoolOptions& options) {
  if (options.deadline.count() == 0 || !options.rule.goes_on()) return kNoDeadline;
  return std::max(silence(options), options.deadline / 2);
}

// Every batch is all samples, however far other strategies had come with them.
data::PortionGrid::Options whole_set(const data::PortionGrid::Options& grid, std::int64_t pieces) {
  return {.samples = grid.samples, .batch = grid.samples, .pieces = pieces};
}

}  // namespace

WorkerPool::WorkerPool(WorkerPoolOptions options)
    : options_(std::move(options)),
      queue_({.workers = options_.workers,
              .in_turn = options_.rule.in_turn,
              .warm = options_.rule.warm,
              .duplicate = options_.rule.procedure.has_value()}),
      service_(options_.wire, queue_,
               {.address = options_.address,
                .workers = options_.workers,
                .members = options_.members,
                .silence = silence(options_),
                .join = join_within(options_),
                .buffers = options_.buffers}) {}

WorkerPool::~WorkerPool() { close(); }

void WorkerPool::close() {
  if (std::exchange(closed_, true)) return;
  try {
    let_go();
    say_farewell();
    if (model_) model_->stop();
  } catch (const std::exception&) {  // servers that are gone need not be told
    say_farewell();
  }
}

// A worker in turn may wait for a clock of another one that has heard of the end already.
void WorkerPool::let_go() {
  queue_.finish();
  for (int worker = 0; model_ && !stopped() && worker < options_.workers; ++worker) model_->retire(worker);
}

void WorkerPool::say_farewell() {
  queue_.finish();
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  while (!stopped() && !queue_.left(kSlice) && std::chrono::steady_clock::now() < until) {
  }
}

void WorkerPool::begin(const Start& start) {
  if (!model_) model_ = std::make_unique<ServedModel>(options_.connect(start.state));
  model_->put(start.state);
  data::PortionGrid::Options grid = start.grid;
  grid.pieces = options_.workers;
  if (has_procedure()) grid = whole_set(grid, options_.rule.pieces(options_.workers, grid.samples));
  grid_ = data::PortionGrid(grid);
  taken_ = 0;
  std::int64_t limit = grid_.before_epoch(has_procedure() ? kNoLimit : start.epochs);
  if (start.steps > 0 && !has_procedure()) limit = std::min(limit, start.steps * options_.workers);
  RunStart told{.position = grid.start};
  for (const auto& buffer : start.state.buffers) told.buffers.push_back(buffer.tensor);
  if (options_.buffers) options_.buffers->show(told.buffers);
  service_.begin(told);
  queue_.open({.grid = grid_, .limit = limit, .rate = start.rate});
  if (has_procedure()) begin_procedure(start.grid);
  moved_ = std::chrono::steady_clock::now();
}

// An iteration is an epoch of the run, of which a part may have been made by another strategy.
void WorkerPool::begin_procedure(const data::PortionGrid::Options& grid) {
  first_epoch_ = grid.start.epoch + (grid.start.sample < grid.samples ? 0 : 1);
  procedure_.emplace(
      model_->client(), queue_, grid_,
      ProcedureRun::Options{.procedure = *options_.rule.procedure, .waiting = [this] { notice_losses(); }});
}

std::optional<WorkerPool::Step> WorkerPool::iterate(const std::function<bool()>& leave) {
  const auto made = procedure_->iterate(leave);
  notice_losses();
  if (!made) return std::nullopt;
  const std::int64_t samples = grid_.at(0).total;
  return Step{.sum = made->sum,
              .position = {first_epoch_ + taken_++, samples},
              .samples = made->evaluations * samples,
              .begins_epoch = true,
              .last = !made->moved};
}

// A strategy that waits for every worker fails at once when one is lost; others go on.
void WorkerPool::notice_losses() {
  if (stopped()) fail("[train] stopped while waiting for workers");
  for (const auto& [worker, why] : queue_.take_lost()) {
    check(options_.rule.goes_on(),
          "[train] expected all {} {}s of {}, which waits for each of them, got {} {} lost: {}", options_.workers,
          unit(), options_.strategy, unit(), worker, why);
    check(queue_.alive() > 0, "[train] expected at least one {}, got none left: {} {}: {}", unit(), unit(), worker,
          why);
    if (model_) model_->retire(worker);
    queue_.retired(worker);
    notes_.push_back(fmt::format("{} {} is lost: {}; the others go on with its samples", unit(), worker, why));
  }
  const std::int64_t moves = queue_.moves();
  const auto now = std::chrono::steady_clock::now();
  if (moves != moved_at_) moved_ = now;
  moved_at_ = moves;
  const bool stuck = options_.deadline.count() > 0 && now - moved_ > options_.deadline;
  check(!stuck, "[train] expected progress of some worker within {:g} s, got none; still at work: workers [{}]",
        std::chrono::duration<double>(options_.deadline).count(), fmt::join(queue_.busy(), ", "));
}

std::optional<WorkerPool::Step> WorkerPool::step(const std::function<bool()>& leave) {
  if (procedure_) return iterate(leave);
  const auto sum = queue_.take_step(kSlice);
  notice_losses();
  if (!sum) return std::nullopt;
  const data::PortionGrid::Span span = grid_.at(taken_++ * options_.workers);
  return Step{.sum = *sum,
              .position = {span.batch.epoch, span.batch.sample + span.total},
              .samples = span.total,
              .begins_epoch = span.batch.sample == 0};
}

// A procedure allows its portions itself, round by round.
void WorkerPool::allow(std::int64_t epoch) {
  if (!procedure_) queue_.allow(grid_.before_epoch(epoch));
}

bool WorkerPool::behind() { return !procedure_ && queue_.done_count() / options_.workers > taken_; }

void WorkerPool::pause() {
  moved_ = std::chrono::steady_clock::now();
  while (!queue_.pause(kSlice)) notice_losses();
}

void WorkerPool::fetch(const dist::TrainedState& state) {
  model_->fetch(state);
  std::vector<Tensor> buffers;
  for (const auto& buffer : state.buffers) buffers.push_back(buffer.tensor);
  if (options_.buffers) options_.buffers->read(buffers);
}

std::vector<RankSummary> WorkerPool::finish() {
  const auto stats = queue_.stats();
  nlohmann::json servers = nlohmann::json::object();
  for (const auto& [name, value] : model_->counters()) servers["servers." + name] = value;
  servers["servers.portions_repeated"] = queue_.repeated();
  servers["servers.portions_duplicated"] = queue_.duplicated();
  for (const auto& [name, value] : procedure_ ? procedure_->counters() : dist::ps::Counters{}) servers[name] = value;
  say_farewell();
  const auto told = queue_.counters();
  std::vector<RankSummary> all;
  for (std::size_t worker = 0; worker < stats.size(); ++worker) {
    RankSummary one{.stats = stats[worker]};
    if (!told[worker].empty()) one.counters = nlohmann::json::parse(told[worker]);
    if (worker == 0) one.counters.update(servers);
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<std::string> WorkerPool::take_notes() { return std::exchange(notes_, {}); }

}  // namespace starling::train
