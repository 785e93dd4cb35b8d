#include "starling/train/sweep/sweep_run.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "starling/train/monitor/json_log.h"
#include "starling/train/sweep/trial_process.h"

namespace starling::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 200;
constexpr double kSmall = 1e-6;  // epochs are counted in samples: 3 epochs may be 2.9999999

// Value of the metric once so many epochs were done: a trial may have gone further since.
double value_at(const std::filesystem::path& run, const std::string& metric, std::int64_t epochs) {
  const auto log = read_run_log(run);
  const LogSeries* series = log ? log->find(metric) : nullptr;
  double value = NAN;
  for (const auto& point : series != nullptr ? series->points : std::vector<LogPoint>{}) {
    if (point.epoch <= static_cast<double>(epochs) + kSmall) value = point.value;
  }
  return value;
}

std::string epochs_text(double epochs) { return fmt::format("{:.4g} epoch{}", epochs, epochs == 1 ? "" : "s"); }

// First step that the log tells with so many epochs done; nullopt: none yet.
std::optional<std::int64_t> step_after(const std::filesystem::path& run, std::int64_t epochs) {
  const auto events = read_run_events(run);
  for (const auto& event : events ? *events : std::vector<nlohmann::ordered_json>{}) {
    const auto epoch = event.find("epoch");
    if (epoch != event.end() && epoch->is_number() && epoch->get<double>() >= static_cast<double>(epochs) - kSmall)
      return event.at("step").get<std::int64_t>();
  }
  return std::nullopt;
}

// True if the trial was evaluated after so many epochs. Having trained them is not enough: a trial that is killed
// during the evaluation at their end has still to make it.
bool has_done(const TrialResult& trial, const std::string& metric, std::int64_t epochs) {
  if (trial.record.state == RunEnd::finished) return true;
  const auto step = trial.record.state == RunEnd::failed ? std::nullopt : step_after(trial.folder, epochs);
  if (!step) return false;
  const auto log = read_run_log(trial.folder);
  const LogSeries* series = log ? log->find(metric) : nullptr;
  return series != nullptr && std::any_of(series->points.begin(), series->points.end(),
                                          [&](const LogPoint& point) { return point.step >= *step; });
}

class Sweep {
 public:
  Sweep(const SweepOptions& options, SweepFolder& folder) : options_(options) {
    for (auto& trial : make_trials(options.sweep)) {
      const auto place = folder.of(trial, options.own ? options.own(trial) : std::map<std::string, std::string>{});
      trials_.push_back({.trial = std::move(trial), .folder = place, .value = NAN});
    }
  }

  SweepResult run() {
    std::vector<TrialResult*> in;
    for (auto& trial : trials_) in.push_back(&trial);
    for (const Rung& rung : make_rungs(options_.sweep, static_cast<std::int64_t>(trials_.size()), options_.epochs)) {
      drop(in, static_cast<std::size_t>(rung.trials));
      stage_ = rung;
      run_stage(in);
      std::erase_if(in, [](const TrialResult* trial) { return !trial->error.empty(); });
      if (interrupted_) break;
    }
    std::stable_sort(trials_.begin(), trials_.end(),
                     [&](const TrialResult& a, const TrialResult& b) { return goes_before(a, b); });
    return {.trials = std::move(trials_), .interrupted = interrupted_};
  }

 private:
  struct Running {
    TrialResult* trial;
    std::unique_ptr<TrialProcess> process;
    bool killed = false;
  };

  bool better(double a, double b) const {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return options_.higher_is_better ? a > b : a < b;
  }
  bool goes_before(const TrialResult& a, const TrialResult& b) const {
    const auto place = [](const TrialResult& t) { return !t.error.empty() ? 2 : t.dropped ? 1 : 0; };
    if (place(a) != place(b)) return place(a) < place(b);
    if (a.dropped && a.record.epochs != b.record.epochs) return a.record.epochs > b.record.epochs;
    return better(a.value, b.value);
  }

  // Leaves the best of a stage to the next one.
  void drop(std::vector<TrialResult*>& in, std::size_t keep) const {
    if (in.size() <= keep) return;
    std::stable_sort(in.begin(), in.end(), [&](const auto* a, const auto* b) { return better(a->value, b->value); });
    for (std::size_t i = keep; i < in.size(); ++i) {
      in[i]->dropped = true;
      tell(*in[i], fmt::format("dropped after {}", epochs_text(static_cast<double>(stage_.epochs))));
    }
    in.resize(keep);
  }

  void run_stage(const std::vector<TrialResult*>& in) {
    std::vector<TrialResult*> waiting;
    for (TrialResult* trial : in) {
      if (!take(*trial)) {
        waiting.push_back(trial);
      } else if (!std::exchange(trial_told_[trial], true)) {
        tell(*trial, fmt::format("done before: {} {:.6g}", options_.metric, trial->value));
      }
    }
    std::reverse(waiting.begin(), waiting.end());  // the first is taken from the back
    std::vector<Running> running;
    while (!waiting.empty() || !running.empty()) {
      ask_to_stop(running);
      if (interrupted_) waiting.clear();
      while (!waiting.empty() && running.size() < static_cast<std::size_t>(options_.workers)) {
        running.push_back(start(*waiting.back()));
        waiting.pop_back();
      }
      wait(running);
      std::erase_if(running, [&](Running& one) { return one.process->ended() && finish(one); });
    }
  }

  // Reads how far a trial has come; true if it has done this stage.
  bool take(TrialResult& trial) const {
    trial.record = read_run(trial.folder);
    if (!is_run_folder(trial.folder) || !has_done(trial, options_.metric, stage_.epochs)) return false;
    trial.value = value_at(trial.folder, options_.metric, stage_.epochs);
    return true;
  }

  Running start(TrialResult& trial) {
    tell(trial, is_run_folder(trial.folder) ? "resumed" : "started");
    trial_told_[&trial] = true;
    return {&trial,
            std::make_unique<TrialProcess>(options_.command(trial.trial, trial.folder, stage_.epochs), trial.folder)};
  }

  void ask_to_stop(std::vector<Running>& running) {
    if (interrupted_) return kill_late(running);
    if (!options_.stop || !options_.stop()) return;
    interrupted_ = true;
    deadline_ = Clock::now() + options_.grace;
    for (auto& one : running) one.process->stop();
  }

  // A trial that hangs must not keep the sweep from ending; it resumes from its newest checkpoint.
  void kill_late(std::vector<Running>& running) {
    if (Clock::now() < deadline_) return;
    for (auto& one : running) {
      if (std::exchange(one.killed, true)) continue;
      tell(*one.trial, fmt::format("killed: it had not ended {:.3g} s after it was asked to",
                                   std::chrono::duration<double>(options_.grace).count()));
      one.process->kill();
    }
  }

  static void wait(const std::vector<Running>& running) {
    std::vector<pollfd> ready;
    for (const auto& one : running) {
      for (const int descriptor : one.process->descriptors()) ready.push_back({descriptor, POLLIN, 0});
    }
    ::poll(ready.data(), ready.size(), kPollMilliseconds);  // a signal ends it early, which is what it is for
  }

  bool finish(const Running& ended) {
    TrialResult& trial = *ended.trial;
    const bool done = take(trial);
    if (done && ended.process->error().empty()) {
      tell(trial, fmt::format("{} after {}: {} {:.6g}", trial.record.state == RunEnd::finished ? "finished" : "paused",
                              epochs_text(trial.record.epochs), options_.metric, trial.value));
    } else if (interrupted_) {
      tell(trial, "interrupted; the same command resumes it");
    } else {
      trial.error = ended.process->error();
      if (trial.error.empty()) trial.error = "it ended without an error before its last epoch";
      trial.record.state = RunEnd::failed;
      tell(trial, "failed: " + trial.error);
    }
    return true;
  }

  void tell(const TrialResult& trial, const std::string& what) const {
    if (options_.tell)
      options_.tell(fmt::format("{} ({}): {}", trial.folder.filename().string(), label(trial.trial), what));
  }

  const SweepOptions& options_;
  std::vector<TrialResult> trials_;
  std::map<const TrialResult*, bool> trial_told_;  // once is enough for a trial that was done before
  Rung stage_{};
  bool interrupted_ = false;
  Clock::time_point deadline_{};  // of the trials, once interrupted
};

}  // namespace

SweepResult run_sweep(const SweepOptions& options, SweepFolder& folder) { return Sweep(options, folder).run(); }

}  // namespace starling::train
