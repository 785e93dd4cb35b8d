#include "starling/train/sweep/sweep_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "starling/base/file.h"
#include "starling/train/run/refusal.h"

namespace starling::train {
namespace {

constexpr const char* kFile = "sweep.json";
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

std::string difference(const std::map<std::string, std::string>& before,
                       const std::map<std::string, std::string>& now) {
  for (const auto& [path, value] : now) {
    const auto old = before.find(path);
    if (old == before.end()) return fmt::format("{} was not shared by its trials, and is {} now", path, value);
    if (old->second != value) return fmt::format("{} was {}, is {}", path, old->second, value);
  }
  for (const auto& [path, value] : before) {
    if (!now.contains(path)) return fmt::format("{} was {} in all trials, and varies now", path, value);
  }
  return "";
}

}  // namespace

SweepFolder::SweepFolder(std::filesystem::path folder, std::map<std::string, std::string> shared)
    : folder_(std::move(folder)), shared_(std::move(shared)), lock_(folder_) {
  const auto file = folder_ / kFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  const auto text = read_file(file, kMostBytes).value();
  std::string other;
  try {
    const auto json = OrderedJson::parse(text);
    other = difference(json.at("shared").get<std::map<std::string, std::string>>(), shared_);
    for (const auto& one : json.at("trials")) {
      Trial trial;
      for (const auto& [path, value] : one.items()) trial.values.emplace_back(path, value);
      trials_.push_back(std::move(trial));
    }
  } catch (const nlohmann::json::exception& e) {
    throw Refusal(fmt::format("[sweep] {}: expected a list of trials, got: {} (choose another folder with -o)",
                              file.string(), e.what()));
  }
  if (!other.empty())
    throw Refusal(
        fmt::format("[sweep] expected the sweep that {} holds, got another job: {} (choose another folder with -o)",
                    folder_.string(), other));
}

void SweepFolder::write() const {
  OrderedJson trials = OrderedJson::array();
  for (const auto& trial : trials_) {
    OrderedJson one = OrderedJson::object();
    for (const auto& [path, value] : trial.values) one[path] = value;
    trials.push_back(std::move(one));
  }
  write_file_atomically(folder_ / kFile, OrderedJson{{"shared", shared_}, {"trials", trials}}.dump(2) + "\n").value();
}

std::filesystem::path SweepFolder::of(const Trial& trial) {
  auto found = std::find(trials_.begin(), trials_.end(), trial);
  const auto index = found - trials_.begin();
  if (found == trials_.end()) {
    trials_.push_back(trial);
    write();
  }
  return folder_ / fmt::format("trial-{:03}", index + 1);
}

}  // namespace starling::train
