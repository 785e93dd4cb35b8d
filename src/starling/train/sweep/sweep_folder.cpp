#include "starling/train/sweep/sweep_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "starling/base/file/file.h"
#include "starling/train/run/refusal.h"

namespace starling::train {
namespace {

constexpr const char* kFile = "sweep.json";
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

using Texts = std::map<std::string, std::string>;

std::string difference(const Texts& before, const Texts& now) {
  for (const auto& [path, value] : now) {
    const auto old = before.find(path);
    if (old == before.end()) return fmt::format("{} was not set, and is {} now", path, value);
    if (old->second != value) return fmt::format("{} was {}, is {}", path, old->second, value);
  }
  for (const auto& [path, value] : before) {
    if (!now.contains(path)) return fmt::format("{} was {} in all trials, and varies now", path, value);
  }
  return "";
}

[[noreturn]] void refuse(const std::filesystem::path& folder, const std::string& difference) {
  throw Refusal(
      fmt::format("[sweep] expected the sweep that {} holds, got another job: {} (choose another folder with -o)",
                  folder.string(), difference));
}

}  // namespace

SweepFolder::SweepFolder(std::filesystem::path folder, std::map<std::string, std::string> shared)
    : folder_(std::move(folder)), shared_(std::move(shared)), lock_(folder_) {
  const auto file = folder_ / kFile;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  const auto text = read_file(file, kMostBytes).value();
  Texts before;
  try {
    const auto json = OrderedJson::parse(text);
    json.at("shared").get_to(before);
    for (const auto& one : json.at("trials")) {
      Known& known = trials_.emplace_back();
      one.at("values").get_to(known.values);
      one.at("own").get_to(known.own);
    }
  } catch (const nlohmann::json::exception& e) {
    throw Refusal(fmt::format("[sweep] {}: expected a list of trials, got: {} (choose another folder with -o)",
                              file.string(), e.what()));
  }
  if (const std::string other = difference(before, shared_); !other.empty()) refuse(folder_, other);
}

void SweepFolder::write() const {
  OrderedJson trials = OrderedJson::array();
  for (const auto& trial : trials_) trials.push_back({{"values", trial.values}, {"own", trial.own}});
  write_file_atomically(folder_ / kFile, OrderedJson{{"shared", shared_}, {"trials", trials}}.dump(2) + "\n").value();
}

std::filesystem::path SweepFolder::of(const Trial& trial, const Texts& own) {
  const std::map<std::string, OrderedJson> values(trial.values.begin(), trial.values.end());
  auto found = std::find_if(trials_.begin(), trials_.end(), [&](const Known& one) { return one.values == values; });
  const auto name = fmt::format("trial-{:03}", found - trials_.begin() + 1);
  if (found == trials_.end()) {
    trials_.push_back({values, own});
    write();
  } else if (const std::string other = difference(found->own, own); !other.empty()) {
    refuse(folder_, fmt::format("of {}, {}", name, other));
  }
  return folder_ / name;
}

}  // namespace starling::train
