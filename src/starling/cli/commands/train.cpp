#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "starling/base/error_text.h"
#include "starling/base/thread/as_rank.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/run_home.h"
#include "starling/cli/terminal/help_width.h"
#include "starling/cli/terminal/tell.h"
#include "starling/dist/launch/rank_info.h"
#include "starling/train/job/job_check.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_run.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/loop/rollbacks.h"
#include "starling/train/monitor/failure_log.h"

namespace starling::cli {
namespace {

struct TrainArguments : JobFile {
  std::string progress = "auto";
  std::string resume;
  std::string trace;
  bool explain = false;
  std::int64_t pause_after = 0;
  dist::ProcessFlags processes;
};

train::Job job_of(const TrainArguments& options) {
  JobFile file = options;
  if (!options.resume.empty()) file.set.push_back("train.resume=" + options.resume);
  return load_job(file);
}

// A loss or metric as people read it.
std::string figure(double value) {
  if (std::isnan(value)) return "-";
  return std::abs(value) < 1e6 ? fmt::format("{:.4f}", value) : fmt::format("{:.4g}", value);
}

void print_summary(const train::Job& job, const train::TrainResult& result) {
  const Summary& s = result.summary;
  std::string metrics;
  for (const auto& [name, value] : s.metrics) metrics += fmt::format(", {} {}", name, figure(value));
  const std::string file = (job.train.folder / "summary.json").string();
  const std::string skipped = s.skipped > 0 ? fmt::format(" ({} of {} steps skipped)", s.skipped, s.steps) : "";
  const std::string loss = std::isnan(s.loss) ? "loss - (no step of the last epoch was made)"
                                              : fmt::format("loss {} (mean of the last epoch)", figure(s.loss));
  const std::string line = fmt::format("{} steps{}, {:.0f} samples/s on average, {}{}, weights {}; {}", s.steps,
                                       skipped, s.samples_per_s, loss, metrics, s.weights_hash.substr(0, 12),
                                       result.summary_written ? file : "no summary was written");
  fmt::print("{}\n", fitted(line, 0));
}

// Advice for a run that had been finished before.
std::string how_to_train_longer(const train::Job& job, const train::TrainResult& result) {
  if (!result.ended_by.empty()) return "train on without that by --set train.early_stop=null";
  const std::string longer = job.train.steps > 0 && result.summary.steps >= job.train.steps
                                 ? fmt::format("--set train.steps={}", 2 * job.train.steps)
                                 : fmt::format("--set train.epochs={}", 2 * job.train.epochs);
  if (!job.schedule.kind || !train::depends_on_length(*job.schedule.kind->make())) return "train longer by " + longer;
  return fmt::format("its schedule ({}) ends with it, so train longer from the beginning, {} --set train.folder={}",
                     job.schedule.kind->name, longer, job.train.folder.string() + "-longer");
}

std::string counted(std::int64_t number, const char* unit) {
  return fmt::format("{} {}{}", number, unit, number == 1 ? "" : "s");
}

// Tells that a run has gone further than this job asks, by which it was left as it is.
void tell_beyond(const train::Job& job, const train::TrainResult& result) {
  const std::string folder = job.train.folder.string();
  train::Job own = job;
  if (std::filesystem::exists(job.train.folder / "job.yaml")) own = load_job({folder, {}});
  const bool by_steps = job.train.steps > 0 && result.summary.steps > job.train.steps;
  const bool ended =
      result.epochs >= own.train.epochs || (own.train.steps > 0 && result.summary.steps >= own.train.steps);
  const std::string done =
      fmt::format("{} ({})", counted(result.epochs, "epoch"), counted(result.summary.steps, "step"));
  own.train.epochs = std::max(own.train.epochs, result.epochs);
  const std::string on = ended ? how_to_train_longer(own, result) : fmt::format("`starling train {}` goes on", folder);
  tell(
      fmt::format("{} is {} {}, and this job asks for {}: nothing was trained and nothing changed; {}, or train so "
                  "long in another folder by --set train.folder={}-short",
                  folder, ended ? "finished with" : "not finished but has", done,
                  by_steps ? counted(job.train.steps, "step") : counted(job.train.epochs, "epoch"), on, folder));
}

void tell_finished(const train::Job& job, const train::TrainResult& result) {
  tell(fmt::format("{} is finished: nothing was trained; {}, or start over by --resume none", job.train.folder.string(),
                   how_to_train_longer(job, result)));
}

// A job that does not fit its data is told as `starling validate` does: everything at once. Of ranks with the same
// problem, the first speaks for all.
[[noreturn]] void tell_problems(const train::Job& job, const Error& error) {
  const AsRank nobody(-1);  // the launcher says whose lines they are
  const train::JobCheck check = train::check_job(job);
  if (check.problems.empty()) throw UsageError(error.what());
  throw JobErrors(check.problems);
}

// Command that resumes an interrupted run.
std::string then(const train::Job& job, const train::TrainResult& result) {
  if (!result.saved) return "the state could not be saved";
  if (job.train.resume == Resume::automatic) return "the same command resumes from there";
  return "the same command with --resume auto resumes from there";
}

// Advice where a loss, gradients or weights have become infinite or NaN. Beside parameter servers gradients cannot be
// clipped, and the state is theirs.
std::string advice_against_infinities(const train::Job& job) {
  const auto options = job.optimizer.kind.json();
  std::string tries = fmt::format("try a lower optimizer.lr{}",
                                  options.contains("lr") ? fmt::format(" than {}", options.at("lr").dump()) : "");
  const bool served = job.distribute.server_count() > 0;
  if (job.train.clip_norm == 0 && !served) tries += ", or train.clip_norm: 1";
  if (job.train.precision != Precision::f32) tries += ", or train.precision: f32";
  if (job.train.finite_every != 1 && !served) tries += "; train.finite_every: 1 finds the first step with infinities";
  return tries;
}

// Where the data itself holds an infinity or NaN.
std::string advice_against_bad_data(const train::Job& job) {
  const std::string skip =
      job.train.non_finite == NonFinite::skip ? "" : ", or train.non_finite: skip, which leaves such steps out";
  return "mend or leave out that sample" + skip;
}

// Tells that the weights are older than the run: all that came after them was skipped.
void tell_skipped(const train::Job& job, const Summary& summary) {
  if (summary.skipped == 0 || !std::isnan(summary.loss)) return;
  tell(
      fmt::format("warning: every step of the last epoch was skipped, as its loss or gradients were not finite: the "
                  "weights are those of before ({})",
                  advice_against_infinities(job)));
}

int train_job(const train::Job& job, const TrainArguments& options) {
  train::TrainOptions train_options;
  train_options.progress.mode = as_usage([&] { return parse_progress_mode(options.progress); });
  train_options.stop = stop_on_signals();
  train_options.hung = [&job](const std::string& finding) {
    if (job.monitor.jsonl) static_cast<void>(train::log_failure(job.train.folder, finding));
    fmt::print(stderr, "\nstarling: {}\n", finding);
    std::_Exit(kFailure);  // the thread that hangs cannot be ended otherwise
  };
  train_options.trace = options.trace;
  if (options.explain) train_options.explain = &std::cout;
  train_options.processes = options.processes;
  train_options.pause_after = options.pause_after;
  const train::TrainResult result = train::run_job(job, train_options);
  const bool paused = result.stopped && options.pause_after > 0 && !train_options.stop();
  if (!result.leads) return result.stopped && !paused ? kInterrupted : kOk;  // rank 0 reports
  if (paused && result.saved) {
    fmt::print("paused at step {}, after {} of {} epochs; {}\n", result.summary.steps, options.pause_after,
               job.train.epochs, then(job, result));
    return kOk;
  }
  if (result.stopped) {
    tell(fmt::format("interrupted at step {}; {}", result.summary.steps, then(job, result)));
    return kInterrupted;
  }
  if (result.beyond) {
    tell_beyond(job, result);
    return kOk;
  }
  print_summary(job, result);
  if (result.was_finished) tell_finished(job, result);
  if (!result.was_finished) tell_skipped(job, result.summary);
  if (!result.model_error.empty()) tell(fmt::format("no saved model: {}", result.model_error));
  if (result.saved) return kOk;
  const AsRank writer(result.summary.ranks.size() > 1 ? 0 : thread_rank());
  fail(
      "[train] expected to save the trained weights in {}, got no checkpoint of the last step (make room there; the "
      "same command then goes on from the newest checkpoint)",
      job.train.folder.string());
}

// The folder of a run may be named from anywhere: its job goes on where it was trained.
TrainArguments at_home(TrainArguments options) {
  if (!std::filesystem::is_directory(options.job) || !std::filesystem::exists(job_path(options.job))) return options;
  if (!options.trace.empty()) options.trace = std::filesystem::absolute(options.trace).string();
  enter_run_home(options.job, load_job({options.job, {}}));
  return options;
}

int run_train(const TrainArguments& given) {
  const TrainArguments options = at_home(given);
  const train::Job job = job_of(options);
  try {
    return train_job(job, options);
  } catch (const train::NotFiniteError& error) {
    const std::string advice = error.of_data() ? advice_against_bad_data(job) : advice_against_infinities(job);
    throw Error(fmt::format("{} ({})", without_rank(error.what()), advice));
  } catch (const train::ToldByFirstRank&) {
    return kUsage;
  } catch (const train::JobError& error) {
    tell_problems(job, error);
  } catch (const ConfigError& error) {
    tell_problems(job, error);
  }
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_train(cli::Commands& into) {
  auto [app, o] = into.add<cli::TrainArguments>(
      "train", "Trains the network of a job file",
      {{"train examples/fashion_lenet.yaml",
        "trains to the end of the job, or resumes an earlier run where it stopped"},
       {"train job.yaml --set optimizer.lr=0.1 --set train.folder=runs/b", "the same with two values changed"},
       {"train job.yaml --set distribute.workers=4", "with four workers, threads of this process"},
       {"train job.yaml --resume none --progress plain", "starts over; whole lines instead of a bar"}},
      cli::run_train);
  cli::add_job_options(app, o);
  app.add_option("--progress", o.progress, "auto, bar, plain, json or off")->capture_default_str();
  app.add_option("--resume", o.resume, "auto: from the newest checkpoint; none: from the beginning");
  app.add_option("--trace", o.trace, "Writes a Chrome trace of some steps to this file");
  app.add_option("--pause-after", o.pause_after, "Saves and ends after so many epochs in all, to be resumed later")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}));
  app.add_flag("--explain", o.explain, "Prints the compiled step");
  app.add_option("--rank", o.processes.rank,
                 "Number of this process among those of the run, unless what started it says so");
  app.add_option("--world", o.processes.world, "How many processes there are");
  app.add_option("--address", o.processes.address, "host:port where they meet");
}

}  // namespace starling
