#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "starling/train/job.h"

namespace starling {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string text(const std::string& value) { return nlohmann::json(value).dump(); }  // JSON strings are YAML too
std::string text(const std::filesystem::path& value) { return text(value.string()); }
std::string text(std::int64_t value) { return std::to_string(value); }
std::string text(double value) { return fmt::format("{}", value); }
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(Resume value) { return value == Resume::none ? "none" : "auto"; }

}  // namespace

Entries job_entries(const Job& job) {
  Entries all;
  const auto add = [&](const char* path, const auto& value) { all.emplace_back(path, text(value)); };
  add("model.name", job.model.name);
  add("model.classes", job.model.classes);
  add("model.dropout", job.model.dropout);
  add("data.name", job.data.name);
  add("data.folder", job.data.folder);
  add("data.batch", job.data.batch);
  add("data.train_limit", job.data.train_limit);
  add("data.test_limit", job.data.test_limit);
  add("data.mean", job.data.mean);
  add("data.std", job.data.std);
  add("optimizer.name", job.optimizer.name);
  add("optimizer.lr", job.optimizer.lr);
  add("optimizer.momentum", job.optimizer.momentum);
  add("optimizer.weight_decay", job.optimizer.weight_decay);
  add("optimizer.nesterov", job.optimizer.nesterov);
  add("train.epochs", job.train.epochs);
  add("train.seed", job.train.seed);
  add("train.steps", job.train.steps);
  add("train.folder", job.train.folder);
  add("train.checkpoint_every", job.train.checkpoint_every);
  add("train.keep", job.train.keep);
  add("train.resume", job.train.resume);
  add("distribute.workers", job.distribute.workers);
  add("distribute.deterministic", job.distribute.deterministic);
  add("distribute.shards", job.distribute.shards);
  add("distribute.threads", job.distribute.threads);
  return all;
}

std::string to_yaml(const Job& job) {
  std::string yaml;
  std::string section;
  for (const auto& [path, value] : job_entries(job)) {
    const auto dot = path.find('.');
    if (path.substr(0, dot) != section) {
      section = path.substr(0, dot);
      yaml += section + ":\n";
    }
    yaml += fmt::format("  {}: {}\n", path.substr(dot + 1), value);
  }
  return yaml;
}

Entries job_identity(const Job& job) {
  static const std::set<std::string_view> free = {
      "data.folder", "data.test_limit",        "train.epochs", "train.steps",        "train.folder",
      "train.keep",  "train.checkpoint_every", "train.resume", "distribute.workers", "distribute.threads"};
  Entries all = job_entries(job);
  std::erase_if(all, [](const auto& entry) { return free.contains(entry.first); });
  return all;
}

}  // namespace starling
