#include "starling/train/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "starling/base/error.h"

namespace starling::train {
namespace {

constexpr std::size_t kMostTrials = 10'000;
constexpr int kMostDraws = 100;  // of one trial, until it is a new one

std::vector<Trial> grid(const SweepJob& sweep) {
  std::vector<Trial> trials{{}};
  for (const auto& setting : sweep.vary) {
    check(!setting.values.empty(),
          "[sweep] expected a list of values for {} in a grid, got a range (method: random draws from it)",
          setting.path);
    std::vector<Trial> more;
    for (const auto& trial : trials) {
      for (const auto& value : setting.values) {
        Trial longer = trial;
        longer.values.emplace_back(setting.path, value);
        // A value that is listed twice is one trial: both would share a folder.
        if (std::find(more.begin(), more.end(), longer) == more.end()) more.push_back(std::move(longer));
      }
    }
    check(more.size() <= kMostTrials, "[sweep] expected at most {} trials, got {} or more (method: random tries some)",
          kMostTrials, more.size());
    trials = std::move(more);
  }
  return trials;
}

// In [0, 1), the same on every machine.
double uniform(std::mt19937_64& random) { return std::ldexp(static_cast<double>(random() >> 11), -53); }

// Four digits can be read and tell trials apart, in a narrow range those behind the ones that all its numbers share.
double rounded(double value, const SweepSetting& setting) {
  const double largest = std::max(std::abs(setting.min), std::abs(setting.max));
  const double shared = std::max(0.0, std::ceil(std::log10(largest / (setting.max - setting.min))));
  return std::stod(fmt::format("{:.{}g}", value, static_cast<int>(std::min(4 + shared, 17.0))));
}

OrderedJson draw(const SweepSetting& setting, std::mt19937_64& random) {
  const double at = uniform(random);
  if (!setting.values.empty())
    return setting.values[static_cast<std::size_t>(at * static_cast<double>(setting.values.size()))];
  if (setting.whole && !setting.log)
    return static_cast<std::int64_t>(setting.min + std::floor(at * (setting.max - setting.min + 1)));
  const double value = setting.log ? setting.min * std::pow(setting.max / setting.min, at)
                                   : setting.min + at * (setting.max - setting.min);
  if (setting.whole) return static_cast<std::int64_t>(std::llround(value));
  return std::clamp(rounded(value, setting), setting.min, setting.max);
}

std::vector<Trial> drawn(const SweepJob& sweep) {
  std::mt19937_64 random(static_cast<std::uint64_t>(sweep.seed));
  std::vector<Trial> trials;
  int draws = 0;
  while (static_cast<std::int64_t>(trials.size()) < sweep.trials && draws < kMostDraws) {
    Trial trial;
    for (const auto& setting : sweep.vary) trial.values.emplace_back(setting.path, draw(setting, random));
    const bool known = std::find(trials.begin(), trials.end(), trial) != trials.end();
    draws = known ? draws + 1 : 0;  // few values may have fewer combinations than trials
    if (!known) trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace

std::string label(const Trial& trial) {
  std::string text;
  for (const auto& [path, value] : trial.values) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", path.substr(path.rfind('.') + 1), shown);
  }
  return text;
}

std::vector<std::string> overrides(const Trial& trial) {
  std::vector<std::string> all;
  for (const auto& [path, value] : trial.values) all.push_back(path + "=" + value.dump());
  return all;
}

std::vector<Trial> make_trials(const SweepJob& sweep) {
  check(
      !sweep.vary.empty(),
      "[sweep] expected settings to vary, got none (add sweep: {{settings: {{optimizer.lr: [0.1, 0.01]}}}} to the job, "
      "or --vary optimizer.lr=0.1,0.01)");
  return sweep.method == SweepJob::Method::grid ? grid(sweep) : drawn(sweep);
}

std::vector<Rung> make_rungs(const SweepJob& sweep, std::int64_t trials, std::int64_t epochs) {
  std::vector<Rung> rungs;
  if (sweep.method == SweepJob::Method::halving) {
    for (std::int64_t done = sweep.first_epochs; done < epochs && trials > 1; done *= sweep.eta) {
      rungs.push_back({done, trials});
      trials = (trials + sweep.eta - 1) / sweep.eta;
    }
  }
  rungs.push_back({epochs, trials});
  return rungs;
}

}  // namespace starling::train
