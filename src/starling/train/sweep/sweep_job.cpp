#include "starling/train/sweep/sweep_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/train/job/job_sections.h"

namespace starling::train {
namespace {

SweepSetting read_range(const std::string& path, const ConfigNode& node) {
  node.allow_keys({"min", "max", "log"});
  SweepSetting setting{.path = path};
  setting.min = node.at("min").as_double();
  setting.max = node.at("max").as_double();
  setting.log = node.get_bool("log", false);
  if (setting.max <= setting.min)
    node.refuse("a range with max above min", fmt::format("{} to {}", setting.min, setting.max));
  if (setting.log && setting.min <= 0)
    node.at("min").refuse("a number above 0 with log: true", fmt::format("{}", setting.min));
  const auto is_whole = [&](const char* key) { return node_json(node.at(key)).is_number_integer(); };
  setting.whole = is_whole("min") && is_whole("max");
  return setting;
}

SweepSetting read_setting(const std::string& path, const ConfigNode& node) {
  if (node.is_map()) return read_range(path, node);
  if (!node.is_list()) node.refuse("a list of values, or a range {min: …, max: …, log: true}", "a single value");
  SweepSetting setting{.path = path};
  for (const auto& item : node.as_list()) setting.values.push_back(node_json(item));
  if (setting.values.empty()) node.refuse("a list of values", "an empty one");
  return setting;
}

}  // namespace

Settings SweepJob::settings() {
  using J = SweepJob;
  return {
      choice("method", &J::method, {"grid", "random", "halving"},
             "grid: all combinations of the lists; random: drawn; halving: drawn, and only the best go on to more "
             "epochs"),
      setting("trials", &J::trials, "how many are drawn, by random and halving", {.min = 1, .max = 10'000}),
      setting("seed", &J::seed, "of what is drawn", {.min = 0, .max = 1e12}),
      setting("metric", &J::metric, "what the best is told by; empty: the first metric of the job"),
      setting("eta", &J::eta, "halving: one of so many goes on, with so many times the epochs", {.min = 2, .max = 100}),
      setting("first_epochs", &J::first_epochs, "halving: epochs of all trials, before the first are dropped",
              {.min = 1, .max = 1'000'000})};
}

void put_setting(SweepJob& sweep, SweepSetting setting) {
  const auto same = std::find_if(sweep.vary.begin(), sweep.vary.end(),
                                 [&](const SweepSetting& one) { return one.path == setting.path; });
  if (same != sweep.vary.end()) {
    *same = std::move(setting);
  } else {
    sweep.vary.push_back(std::move(setting));
  }
}

SweepJob read_sweep(const ConfigNode& node) {
  SweepJob sweep;
  read_settings(SweepJob::settings(), node, &sweep, {"settings"});
  if (const auto settings = node.find("settings")) {
    for (const auto& [path, value] : settings->as_map()) put_setting(sweep, read_setting(path, value));
  }
  return sweep;
}

SweepSetting parse_vary(const std::string& text) {
  const auto at = text.find('=');
  check(at != std::string::npos && at > 0,
        "[sweep] expected --vary with a setting and its values, as optimizer.lr=0.1,0.01, got '{}'", text);
  const std::string path = text.substr(0, at), given = text.substr(at + 1);
  const ConfigNode values = ConfigNode::parse("[" + given + "]", "--vary " + path);
  // One list or one range may stand alone; of several lists each is a value: hidden=[32],[64, 64].
  const auto items = values.as_list();
  const bool alone = items.size() == 1 && !items[0].is_null() && !items[0].is_scalar();
  return read_setting(path, alone ? items[0] : values);
}

}  // namespace starling::train
