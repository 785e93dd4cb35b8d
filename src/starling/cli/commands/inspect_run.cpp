#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/base/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/runs/run_record.h"
#include "starling/train/runs/times.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

struct InspectRunArguments {
  std::string run;
};

// One line per rank, its waits by operation and its strategy's counters.
void print_ranks(const nlohmann::ordered_json& ranks) {
  for (const auto& rank : ranks) {
    std::string more;
    const auto left_out = rank.value("left_out", std::int64_t{0});
    for (const auto& [op, seconds] : rank.at("wait").items())
      more += fmt::format(", {} {:.3f} s", op, seconds.get<double>());
    fmt::print(
        "{:<13} {:.0f} samples/s{}, waits {:.1f} % for data and {:.1f} % for others ({}), sent {:.2f} MB, received "
        "{:.2f} MB\n",
        fmt::format("rank {}", rank.at("rank").get<int>()), rank.at("samples_per_s").get<double>(),
        left_out > 0 ? fmt::format(", left out {} samples", left_out) : "", 100 * rank.at("data_wait").get<double>(),
        100 * rank.at("comm_wait").get<double>(), more.empty() ? "none" : more.substr(2),
        rank.at("sent").get<double>() / 1e6, rank.at("received").get<double>() / 1e6);
    if (!rank.at("counters").empty()) fmt::print("{:<13} {}\n", "", rank.at("counters").dump());
  }
}

// Numbers as people read them; summary.json has them in full.
std::string shown(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : value.dump();
}

// "sgd, lr 0.05, momentum 0.9": a kind and its options.
std::string kind_text(const nlohmann::ordered_json& kind) {
  std::string text = kind.value("name", "");
  for (const auto& [key, value] : kind.items()) {
    if (key != "name") text += fmt::format(", {} {}", key, shown(value));
  }
  return text;
}

void print_summary(const fs::path& run) {
  const auto text = read_file(run / "summary.json", 1 << 20);
  if (!text) {
    fmt::print("summary       none: it has not ended yet\n");
    return;
  }
  const auto summary = nlohmann::ordered_json::parse(*text, nullptr, false);
  check(summary.is_object(), "[inspect] {}: expected a summary, got something else", (run / "summary.json").string());
  for (const auto& [key, value] : summary.items()) {
    if (key == "ranks") print_ranks(value);
    if (value.is_array()) continue;
    if (!value.is_object()) {
      const bool moment = key == "started" && value.is_number();
      fmt::print("{:<13} {}\n", key, moment ? train::moment_text(value.get<double>()) : shown(value));
      continue;
    }
    for (const auto& [name, number] : value.items()) fmt::print("{:<13} {}\n", name, shown(number));
  }
}

void print_job(const train::Job& job) {
  fmt::print("{:<13} {}\n", "model", job.model.net ? job.model.net->name : "declared");
  fmt::print("{:<13} {}\n", "data", job.data.source.name);
  fmt::print("{:<13} {}\n", "optimizer", kind_text(job_json(job).at("optimizer")));
}

// Of a run made by a C++ program: the settings that its checkpoints keep.
void print_settings(const train::RunRecord& run) {
  fmt::print("{:<13} none: made by a C++ program\n", "job");
  for (const auto& [path, value] : run.settings) fmt::print("{:<13} {}\n", path, value.dump());
}

// Verifies every checkpoint, since that is what one wants to know before trusting a run.
void print_checkpoints(const fs::path& folder, const char* title) {
  const CheckpointFolder checkpoints(folder);
  for (const std::int64_t step : checkpoints.steps()) {
    const auto loaded = checkpoints.load(step);
    if (loaded) {
      fmt::print("{:<13} step {}, {} tensors\n", title, step, loaded->tensors.size());
    } else {
      fmt::print("{:<13} step {}, not sound: {}\n", title, step, loaded.error());
    }
  }
}

// True if the state of a run is its end: of the epochs, of the steps, or by its early stop.
bool is_end(const train::Job& job, const nlohmann::json& extra) {
  const auto& run = extra.at("run");
  if (run.at("epoch").get<std::int64_t>() >= job.train.epochs) return true;
  if (job.train.steps > 0 && run.at("step").get<std::int64_t>() >= job.train.steps) return true;
  const auto callbacks = extra.value("callbacks", nlohmann::json::object());
  return job.train.early_stop && callbacks.contains("early_stop") &&
         callbacks.at("early_stop").at("waited").get<std::int64_t>() > job.train.early_stop->patience;
}

// Whether a run has ended, by its newest checkpoint, and how to continue one that has not.
std::string state_of(const fs::path& folder, const train::Job& job) {
  const auto loaded = CheckpointFolder(folder / "checkpoints").load_latest();
  if (!loaded) return fmt::format("no checkpoint yet; `starling train {}` starts it", folder.string());
  const Checkpoint& newest = loaded->checkpoint;
  try {
    if (is_end(job, newest.extra)) return fmt::format("finished at step {}", newest.step);
    const auto epoch = newest.extra.at("run").at("epoch").get<std::int64_t>() + 1;
    return fmt::format("not finished: step {} in epoch {} of {}; `starling train {}` continues it", newest.step, epoch,
                       job.train.epochs, folder.string());
  } catch (const nlohmann::json::exception&) {
    return fmt::format("unknown: the checkpoint of step {} has no state of a run", newest.step);
  }
}

int run_inspect_run(const InspectRunArguments& options) {
  const fs::path folder(options.run);
  const bool has_job = fs::exists(folder / "job.yaml");
  if (!has_job && !train::is_run_folder(folder))
    throw UsageError(fmt::format(
        "[inspect] expected the folder of a run, with a job.yaml, a summary or checkpoints, got {}", options.run));
  if (has_job) {
    const train::Job job = load_job({options.run, {}});
    print_job(job);
    fmt::print("{:<13} {}\n", "state", state_of(folder, job));
  } else {
    print_settings(train::read_run(folder));
  }
  print_summary(folder);
  print_checkpoints(folder / "checkpoints", "checkpoint");
  print_checkpoints(folder / "checkpoints-best", "best");
  if (is_saved_model(folder / "model")) fmt::print("{:<13} {}\n", "saved model", (folder / "model").string());
  return kOk;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_inspect_run(cli::Commands& into) {
  auto [app, o] = into.add<cli::InspectRunArguments>(
      "inspect run", "Shows what a run is, how it ended and which checkpoints it has",
      {{"inspect run runs/fashion_lenet", "a line for each thing"}}, cli::run_inspect_run);
  app.add_option("run", o.run, "Folder of a run")->required();
}

}  // namespace starling
