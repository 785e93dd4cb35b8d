#include "starling/train/workers/worker_loop.h"

#include <chrono>
#include <cmath>

#include "starling/base/clock.h"
#include "starling/ops/api/random.h"
#include "starling/train/loop/bad_input.h"

namespace starling::train {
namespace {

dist::TrainedState trained_state(const WorkerParts& parts) {
  dist::TrainedState state{.rule = &parts.optimizer};
  for (auto& [name, tensor] : parts.net.named_parameters()) state.weights.push_back({name, tensor});
  for (auto& [name, tensor] : parts.net.named_buffers()) state.buffers.push_back({name, tensor});
  for (auto& [name, tensor] : parts.optimizer.state()) state.optimizer.push_back({name, tensor});
  return state;
}

class WorkerLoop {
 public:
  explicit WorkerLoop(const WorkerParts& parts) : parts_(parts) {
    for (auto& [name, tensor] : parts.net.named_buffers()) buffers_.push_back(tensor);
  }

  // Every worker has noise of its own.
  bool begin(data::DataPosition& start) {
    const auto told = parts_.line.join(buffers_);
    if (!told) return false;
    start = told->position;
    for (std::size_t i = 0; i < buffers_.size(); ++i) copy_into(buffers_[i], told->buffers[i]);
    constexpr std::int64_t kStride = 1'000'003;
    manual_seed(parts_.seed + kStride * parts_.line.worker());
    parts_.net.train();
    parts_.strategy.begin(trained_state(parts_));
    return true;
  }

  void run(Loader& loader) {
    while (true) {
      const auto asked = SteadyClock::now();
      const Batch* batch = loader.next();
      const double waited = seconds_since(asked);
      if (batch == nullptr) {
        if (!idle()) return;
        continue;
      }
      stats_.data_wait += waited;
      if (!wanted(*batch)) continue;
      portion(*batch);
      stats_.seconds += seconds_since(asked);
    }
  }

 private:
  // False: the run is over.
  bool idle() {
    parts_.strategy.settle();
    acknowledge();
    if (parts_.line.why() == PortionAnswer::Kind::end) {
      leave();
      return false;
    }
    was_idle_ = true;
    parts_.line.settled();
    return true;
  }

  // Of an evaluation's portions slow ones are given to several workers: what another has done is not computed again.
  bool wanted(const Batch& batch) { return !parts_.strategy.rule().procedure || parts_.line.wanted(batch.portion); }

  void portion(const Batch& batch) {
    const auto [lr, clock, alone, pauses] = parts_.line.terms(batch.portion);
    parts_.strategy.take_portion(parts_.line.told_as(batch.portion), alone, pauses);
    acknowledge();
    clock_ = std::max(clock_, was_idle_ || alone ? clock : 0);  // others do not wait for a worker that comes back
    was_idle_ = false;
    if (lr != parts_.optimizer.lr()) parts_.optimizer.set_lr(lr);
    parts_.strategy.take_fields({batch.fields.data(), batch.fields.size()});
    watch(false);
    parts_.programs.begin({}, clock_);
    parts_.programs.add(batch);
    const StepPrograms::Result result = parts_.programs.end();
    ++clock_;
    ++portions_;
    if (parts_.buffers) parts_.buffers->show(buffers_);
    if (shows_) parts_.line.show(buffers_);
    tell(batch, result);
    if (parts_.stepped) parts_.stepped(clock_);
  }

  void tell(const Batch& batch, const StepPrograms::Result& result) {
    stats_.samples += result.rows;
    stats_.left_out += batch.size - result.rows;
    count_exchanges();
    PortionNote note{
        .portion = parts_.line.told_as(batch.portion), .rows = result.rows, .clock = clock_, .stats = stats_};
    const bool finite = std::isfinite(result.loss);
    if (!finite) note.not_finite = StepNote::kLoss;
    if (finite && result.skipped) note.not_finite = StepNote::kGradients;
    if (note.not_finite == StepNote::kLoss) note.parameter = bad_field(batch);
    if (note.not_finite == StepNote::kGradients) note.parameter = number_of(result.non_finite);
    if (note.not_finite == 0) note.weight = result.weight;
    if (note.not_finite == 0) note.loss = result.loss * result.weight;
    notes_.push_back(parts_.line.whole(note));
    acknowledge();
  }

  // Number of the field with an infinity or NaN, from 1 on; 0: all are finite.
  static std::uint32_t bad_field(const Batch& batch) {
    const auto found = first_bad_input({batch.fields.data(), batch.fields.size()});
    return found ? static_cast<std::uint32_t>(found->field + 1) : 0;
  }

  // Number of the parameter with this name in quotes, from 1 on; 0: this worker has none.
  std::uint32_t number_of(const std::string& quoted) const {
    std::uint32_t number = 0;
    for (const auto& [name, parameter] : parts_.net.named_parameters()) {
      ++number;
      if (quoted == "'" + name + "'") return number;
    }
    return 0;
  }

  // Done is what the servers have: what is kept back is made by others if this worker dies.
  void acknowledge() {
    if (parts_.strategy.keeps_back()) return;
    const bool showed = shows_;
    for (const PortionNote& note : std::exchange(notes_, {})) shows_ = parts_.line.done(note);
    if (shows_ && !showed) parts_.line.show(buffers_);
  }

  void count_exchanges() {
    stats_.sent = stats_.received = 0;
    for (int op = 0; op < kCommOpCount; ++op) {
      const dist::OpCounters one = parts_.strategy.exchanged(static_cast<CommOp>(op));
      stats_.wait[static_cast<std::size_t>(op)] = static_cast<double>(one.wait_ns) / 1e9;
      stats_.sent += one.bytes_sent;
      stats_.received += one.bytes_received;
    }
  }

  void watch(bool ended) {
    if (parts_.watch) parts_.watch({.program = parts_.programs.main_program(), .portions = portions_, .ended = ended});
  }

  void leave() {
    watch(true);
    nlohmann::json counters = nlohmann::json::object();
    for (const auto& [name, value] : parts_.strategy.counters()) counters[name] = value;
    parts_.line.leave(counters.dump());
  }

  WorkerParts parts_;
  std::vector<Tensor> buffers_;
  RankStats stats_{};
  std::vector<PortionNote> notes_;  // of portions that the leader has not been told of
  std::int64_t clock_ = 0;          // steps of this worker
  std::int64_t portions_ = 0;       // that it has done
  bool was_idle_ = false;
  bool shows_ = false;  // the leader reads this worker's running statistics
};

}  // namespace

void work_for_leader(const WorkerParts& parts,
                     const std::function<std::unique_ptr<Loader>(data::DataPosition start)>& make) {
  try {
    WorkerLoop loop(parts);
    data::DataPosition start;
    if (!loop.begin(start)) return;
    const std::unique_ptr<Loader> loader = make(start);
    try {
      loop.run(*loader);
    } catch (const std::exception& error) {
      parts.line.failed(error.what());  // before the loader ends: it may wait for others
      throw;
    }
  } catch (const std::exception& error) {
    parts.line.failed(error.what());
    throw;
  }
}

}  // namespace starling::train
