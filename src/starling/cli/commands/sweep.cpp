#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/help_width.h"
#include "starling/cli/terminal/tell.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/monitor/plot/svg_plot.h"
#include "starling/train/sweep/sweep_report.h"
#include "starling/train/sweep/sweep_run.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

struct SweepArguments : JobFile {
  std::vector<std::string> vary;
  std::string method;
  std::int64_t trials = 0;
  std::string metric;
  int workers = 1;
  double grace = 60;
  std::string out;
};

// Options of the command line stand above the section of the job.
ConfigNode config_of(const SweepArguments& options) {
  JobFile file = options;
  if (!options.method.empty()) file.set.push_back("sweep.method=" + options.method);
  if (options.trials > 0) file.set.push_back(fmt::format("sweep.trials={}", options.trials));
  if (!options.metric.empty()) file.set.push_back("sweep.metric=" + options.metric);
  return load_config(file);
}

train::SweepJob sweep_of(const SweepArguments& options, const ConfigNode& top) {
  return as_usage([&] {
    const auto section = top.find("sweep");
    train::SweepJob sweep = section ? train::read_sweep(*section) : train::SweepJob{};
    for (const auto& text : options.vary) put_setting(sweep, train::parse_vary(text));
    return sweep;
  });
}

// Errors of values that are tried name the option that gave them.
std::vector<std::string> as_varied(std::vector<std::string> errors, const train::Trial& trial) {
  for (auto& error : errors) {
    for (const auto& [path, value] : trial.values) {
      const std::string set = "--set " + path + ": ";
      if (!error.starts_with(set)) continue;
      error.replace(0, 5, "--vary");
      if (const auto hint = error.rfind("mean --set "); hint != std::string::npos) error.replace(hint + 5, 5, "--vary");
    }
  }
  return errors;
}

// Job of a trial; errors in a value that is tried are told before anything runs.
train::Job trial_job(const SweepArguments& options, const train::Trial& trial) {
  JobFile file = options;
  for (auto& one : overrides(trial)) file.set.push_back(std::move(one));
  try {
    return load_job(file);
  } catch (const JobErrors& errors) {
    throw JobErrors(as_varied(errors.all(), trial));
  }
}

// Part of a job that a varied setting changes: of the name of a kind its whole section, since options come and go with
// it; else the setting itself.
std::string changed_part(const std::string& path) {
  constexpr std::string_view kName = ".name";
  return path.ends_with(kName) ? path.substr(0, path.size() - kName.size()) : path;
}
bool is_within(const std::string& path, const std::string& part) {
  return path == part || path.starts_with(part + ".");
}

struct SettingsOfTrial {
  std::map<std::string, std::string> shared{};  // with all trials, so that a folder is not used for another job
  std::map<std::string, std::string> own{};     // of the parts that vary, without the values that are tried
};

SettingsOfTrial settings_of(const train::Job& job, const train::SweepJob& sweep) {
  SettingsOfTrial made;
  for (const auto& [path, value] : job_identity(job)) made.shared[path] = value;
  made.shared["train.epochs"] = std::to_string(job.train.epochs);
  made.shared["train.steps"] = std::to_string(job.train.steps);
  std::erase_if(made.shared, [&](const auto& entry) {
    bool varies = false, tried = false;
    for (const auto& setting : sweep.vary) {
      varies = varies || is_within(entry.first, changed_part(setting.path)) || is_within(setting.path, entry.first);
      tried = tried || is_within(entry.first, setting.path) || is_within(setting.path, entry.first);
    }
    if (varies && !tried) made.own.insert(entry);
    return varies;
  });
  return made;
}

// Name of the metric in logs, and its direction. Reads the data, which also tells what does not fit before any trial.
struct Goal {
  std::string metric;
  bool higher_is_better = true;
};
Goal goal_of(const train::Job& job, const train::SweepJob& sweep) {
  const train::PreparedJob prepared = prepare_job(job);
  if (prepared.data.evaluated.empty() || prepared.metrics.empty())
    throw UsageError(
        "[sweep] expected data with a part to evaluate on, got none (keep some apart, as by --set "
        "data.split.test=0.1)");
  Goal goal{as_usage([&] { return told_name(prepared, sweep.metric, "sweep.metric"); })};
  if (goal.metric.empty()) goal.metric = prepared.metrics.front().name;
  for (const auto& metric : prepared.metrics) {
    if (goal.metric.ends_with(metric.name)) goal.higher_is_better = metric.metric->higher_is_better();
  }
  return goal;
}

std::vector<std::string> train_command(const SweepArguments& options, const train::Trial& trial, const fs::path& folder,
                                       std::int64_t epochs, std::int64_t threads) {
  std::vector<std::string> command{fs::read_symlink("/proc/self/exe").string(), "train", options.job};
  const auto set = [&](const std::string& assignment) {
    command.emplace_back("--set");
    command.push_back(assignment);
  };
  for (const auto& one : options.set) set(one);
  for (const auto& one : overrides(trial)) set(one);
  set("train.folder=" + nlohmann::json(folder.string()).dump());
  set("monitor.jsonl=true");
  if (threads > 0) set(fmt::format("distribute.threads={}", threads));
  for (const char* more : {"--resume", "auto", "--progress", "plain", "--pause-after"}) command.emplace_back(more);
  command.push_back(std::to_string(epochs));
  return command;
}

void report(const train::SweepResult& result, const std::string& metric, const fs::path& folder) {
  std::cout << sweep_table(result, metric, help_columns());
  if (const std::string best = best_text(result, metric); !best.empty()) std::cout << fitted(best, 0) << "\n";
  if (const auto figure = sweep_figure(result, metric)) {
    write_file_atomically(folder / "sweep.svg", to_svg(*figure)).value();
    std::cout << "curves of the best: " << (folder / "sweep.svg").string() << "\n";
  }
  std::cout << std::flush;  // before what is told on standard error
}

int run_sweep_command(const SweepArguments& options) {
  const ConfigNode top = config_of(options);
  train::SweepJob sweep = sweep_of(options, top);
  const auto trials = as_usage([&] { return make_trials(sweep); });
  std::vector<train::Job> jobs;
  for (const auto& trial : trials) jobs.push_back(trial_job(options, trial));
  const train::Job& first = jobs.front();
  const Goal goal = goal_of(first, sweep);
  const fs::path out = options.out.empty() ? fs::path(first.train.folder.string() + "-sweep") : fs::path(options.out);
  train::SweepFolder folder(out, settings_of(first, sweep).shared);
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const bool share = options.workers > 1 && first.distribute.threads == 0;
  const std::int64_t threads = share ? std::max<std::int64_t>(1, cores / options.workers) : 0;

  train::SweepOptions how;
  how.sweep = sweep;
  for (const auto& job : jobs) how.epochs = std::max(how.epochs, job.train.epochs);  // shorter ones end by themselves
  how.metric = goal.metric;
  how.higher_is_better = goal.higher_is_better;
  how.workers = options.workers;
  how.own = [&](const train::Trial& trial) { return settings_of(trial_job(options, trial), sweep).own; };
  how.stop = stop_on_signals();
  how.grace = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * options.grace));
  how.tell = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  how.command = [&](const train::Trial& trial, const fs::path& own, std::int64_t epochs) {
    return train_command(options, trial, own, epochs, threads);
  };
  fmt::print(stderr, "{} trials in {}, best by {} {}\n", trials.size(), out.string(),
             goal.higher_is_better ? "highest" : "lowest", goal.metric);
  const train::SweepResult result = run_sweep(how, folder);
  report(result, goal.metric, out);
  if (result.interrupted) {
    tell("interrupted; the same command goes on with the sweep");
    return kInterrupted;
  }
  const auto failed =
      std::count_if(result.trials.begin(), result.trials.end(), [](const auto& trial) { return !trial.error.empty(); });
  if (failed > 0)
    tell(fmt::format("{} of {} trials failed; output.txt in the folder of each has all it said", failed,
                     result.trials.size()));
  return failed > 0 ? kFailure : kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_sweep(cli::Commands& into) {
  auto [app, o] = into.add<cli::SweepArguments>(
      "sweep", "Trains a job with many settings and tells which are best",
      {{"sweep job.yaml --vary optimizer.lr=0.1,0.03,0.01 --vary data.batch=32,64", "all six combinations"},
       {"sweep job.yaml -o runs/rates --method random --trials 20 --vary 'optimizer.lr={min: 0.001, max: 1, log: "
        "true}'",
        "20 rates drawn from a range, in another folder"},
       {"sweep job.yaml -o runs/halving --method halving --workers 2",
        "what the job's section `sweep` says, dropping the worst early, "
        "two trials at a time"}},
      cli::run_sweep_command);
  cli::add_job_options(app, o);
  app.add_option("--vary", o.vary, "Setting and its values: optimizer.lr=0.1,0.01; may be given again")
      ->allow_extra_args(false);
  app.add_option("--method", o.method, "grid, random or halving; nothing: what the job says, else grid")
      ->check(CLI::IsMember({"grid", "random", "halving"}));
  app.add_option("--trials", o.trials, "How many are drawn, by random and halving")->check(CLI::Range(1, 10'000));
  app.add_option("--metric", o.metric, "What the best is told by; nothing: the first metric of the job");
  app.add_option("--workers", o.workers, "Trials at the same time, each a process with its share of the cores")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--grace", o.grace, "Seconds that trials get to save their state after Ctrl-C or SIGTERM")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("-o,--out", o.out, "Folder of the sweep; nothing: train.folder of the job with -sweep at its end");
}

}  // namespace starling
