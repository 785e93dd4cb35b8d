#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/cli/terminal/help_width.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/monitor/server_scalars.h"
#include "starling/train/runs/run_record.h"
#include "starling/train/runs/times.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kServers = "servers.";
constexpr std::size_t kValues = 14;  // column in which values begin

struct InspectRunArguments {
  std::string run;
};

// Numbers as people read them; summary.json has them in full.
std::string shown(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.6g}", value.get<double>()) : value.dump();
}

// "sgd, lr 0.05, momentum 0.9": a kind and its options.
std::string kind_text(const nlohmann::ordered_json& kind) {
  std::string text = kind.value("name", "");
  for (const auto& [key, value] : kind.items()) {
    if (key != "name" && !(value.is_array() && value.empty())) text += fmt::format(", {} {}", key, shown(value));
  }
  return text;
}

// A line "name          value" in the columns of the terminal; values go on in their own column.
void print_line(std::string_view name, const std::string& value) {
  fmt::print("{}\n", fitted(fmt::format("{:<13} {}", name, value), kValues));
}

// Bar of a histogram of the servers, "servers.staleness.3": their means are told instead.
bool is_bar(const std::string& counter) {
  return counter.starts_with(kServers) && std::isdigit(static_cast<unsigned char>(counter.back())) != 0;
}

// The work of the servers of a run, from the counters that its first worker tells.
void print_servers(const nlohmann::ordered_json& counters) {
  dist::ps::Counters told;
  for (const auto& [name, value] : counters.items()) {
    if (name.starts_with(kServers) && value.is_number())
      told.emplace_back(name.substr(kServers.size()), value.get<double>());
  }
  std::string text;
  for (const auto& [tag, value] : train::server_scalars({}, told)) {
    if (!tag.starts_with("codec/"))
      text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", tag.substr(tag.find('/') + 1), value);
  }
  if (!text.empty()) print_line("servers", text);
}

// The gradients that a rank has coded, weight by weight.
void print_codecs(const nlohmann::ordered_json& counters) {
  dist::ps::Counters told;
  for (const auto& [name, value] : counters.items()) {
    if (value.is_number()) told.emplace_back(name, value.get<double>());
  }
  const auto all = train::traffic_scalars({}, told);
  for (std::size_t i = 0; i + 2 < all.size(); i += 3) {  // three of each weight
    const std::string& tag = all[i].tag;
    const std::size_t first = tag.find('/');
    print_line("codec", fmt::format("{}: {:.4g} MB before, {:.4g} MB after, error {:.3g}",
                                    tag.substr(first + 1, tag.rfind('/') - first - 1), all[i].value, all[i + 1].value,
                                    all[i + 2].value));
  }
}

// Counter of a single weight, which print_codecs() tells.
bool is_of_weight(const std::string& counter) {
  const auto names = {"decoded_bytes.", "coded_bytes.", "codec_error."};
  const std::string name = counter.starts_with(kServers) ? counter.substr(kServers.size()) : counter;
  return std::any_of(names.begin(), names.end(), [&](const char* one) { return name.starts_with(one); });
}

// One line per rank, its waits by operation and its strategy's counters.
void print_ranks(const nlohmann::ordered_json& ranks) {
  for (const auto& rank : ranks) {
    std::string more;
    const auto left_out = rank.value("left_out", std::int64_t{0});
    for (const auto& [op, seconds] : rank.at("wait").items())
      more += fmt::format(", {} {:.3f} s", op, seconds.get<double>());
    print_line(
        fmt::format("rank {}", rank.at("rank").get<int>()),
        fmt::format(
            "{:.0f} samples/s{}, waits {:.1f} % for data and {:.1f} % for others ({}), sent {:.2f} MB, received {:.2f} "
            "MB",
            rank.at("samples_per_s").get<double>(), left_out > 0 ? fmt::format(", left out {} samples", left_out) : "",
            100 * rank.at("data_wait").get<double>(), 100 * rank.at("comm_wait").get<double>(),
            more.empty() ? "none" : more.substr(2), rank.at("sent").get<double>() / 1e6,
            rank.at("received").get<double>() / 1e6));
    std::string counters;
    print_servers(rank.at("counters"));
    print_codecs(rank.at("counters"));
    for (const auto& [name, value] : rank.at("counters").items())
      if (!is_bar(name) && !is_of_weight(name))
        counters += fmt::format("{}{} {}", counters.empty() ? "" : ", ", name, shown(value));
    if (!counters.empty()) print_line("", counters);
  }
}

// Where a run stands that went on after its summary was written: from its log, if it has one.
void print_progress(const train::RunRecord& now) {
  if (std::isfinite(now.epochs)) print_line("epochs", fmt::format("{:.6g}", now.epochs));
  if (std::isfinite(now.loss)) print_line("loss", fmt::format("{:.6g} (of its last steps)", now.loss));
  for (const auto& [name, value] : now.metrics) print_line(name, fmt::format("{:.6g}", value));
}

void print_values(const nlohmann::ordered_json& summary) {
  for (const auto& [key, value] : summary.items()) {
    if (key == "ranks") print_ranks(value);
    if (value.is_array()) continue;
    if (!value.is_object()) {
      const bool moment = key == "started" && value.is_number();
      print_line(key, moment ? train::moment_text(value.get<double>()) : shown(value));
      continue;
    }
    for (const auto& [name, number] : value.items()) print_line(name, shown(number));
  }
}

// The summary, unless the run has gone on since it was written: then what is newest stands first, and what follows is
// said to be older.
void print_summary(const fs::path& run) {
  const train::RunRecord now = train::read_run(run);
  const auto text = read_file(run / "summary.json", 1 << 20);
  if (!text) {
    print_line("summary", now.state == train::RunEnd::failed    ? "none: it failed"
                          : now.state == train::RunEnd::running ? "none: it is running"
                                                                : "none: it has not ended yet");
    return print_progress(now);
  }
  const auto summary = nlohmann::ordered_json::parse(*text, nullptr, false);
  check(summary.is_object(), "[inspect] {}: expected a summary, got something else", (run / "summary.json").string());
  const double of = summary.value("steps", 0.0);
  if (now.steps > of) {
    print_line("steps", fmt::format("{:.0f}", now.steps));
    print_progress(now);
    print_line("summary", fmt::format("of step {:.0f}, before it went on; what follows is as it was then", of));
  }
  print_values(summary);
}

void print_job(const train::Job& job) {
  print_line("model", job.model.net ? job.model.net->name : "declared");
  print_line("data", job.data.source.name);
  print_line("optimizer", kind_text(job_json(job).at("optimizer")));
}

// Of a run made by a C++ program: the settings that its checkpoints keep.
void print_settings(const train::RunRecord& run) {
  print_line("job", "none: made by a C++ program");
  for (const auto& [path, value] : run.settings) print_line(path, value.dump());
}

// Verifies every checkpoint, since that is what one wants to know before trusting a run.
void print_checkpoints(const fs::path& folder, const char* title) {
  const CheckpointFolder checkpoints(folder);
  for (const std::int64_t step : checkpoints.steps()) {
    const auto loaded = checkpoints.load(step);
    if (loaded) {
      print_line(title, fmt::format("step {}, {} tensors", step, loaded->tensors.size()));
    } else {
      print_line(title, fmt::format("step {}, not sound: {}", step, loaded.error()));
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

// " (`starling runs FOLDER` lists the 3 runs in it)" for a folder of runs; empty for any other.
std::string runs_within(const fs::path& folder) {
  const auto found = fs::is_directory(folder) ? train::find_runs(folder) : std::vector<fs::path>();
  if (found.empty()) return "";
  return fmt::format(" (`starling runs {}` lists {} in it, as {})", folder.string(),
                     found.size() == 1 ? "the run" : fmt::format("the {} runs", found.size()), found.front().string());
}

int run_inspect_run(const InspectRunArguments& options) {
  const fs::path folder(options.run);
  const bool has_job = fs::exists(folder / "job.yaml");
  if (!has_job && !train::is_run_folder(folder))
    throw UsageError(
        fmt::format("[inspect] expected the folder of a run, with a job.yaml, a summary or checkpoints, got {}{}",
                    options.run, runs_within(folder)));
  if (has_job) {
    const train::Job job = load_job({options.run, {}});
    print_job(job);
    print_line("state", state_of(folder, job));
  } else {
    print_settings(train::read_run(folder));
  }
  if (const std::string why = train::read_run(folder).failure; !why.empty()) print_line("failed", why);
  print_summary(folder);
  print_checkpoints(folder / "checkpoints", "checkpoint");
  print_checkpoints(folder / "checkpoints-best", "best");
  if (is_saved_model(folder / "model")) print_line("saved model", (folder / "model").string());
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
