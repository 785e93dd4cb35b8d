#include "starling/train/run/run_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "starling/base/error.h"
#include "starling/train/run/copy_tensors.h"

namespace starling::train {
namespace {

// Steps whose checkpoints are sound, newest first: "100, 50"; "none".
std::string sound_steps(const std::filesystem::path& run) {
  const CheckpointFolder all(run / "checkpoints");
  const auto steps = all.steps();
  std::vector<std::int64_t> sound;
  std::copy_if(steps.rbegin(), steps.rend(), std::back_inserter(sound),
               [&](std::int64_t step) { return all.load(step).ok(); });
  return sound.empty() ? "none" : fmt::format("{}", fmt::join(sound, ", "));
}

// Steps of the checkpoints that can be chosen: "50, 100".
std::string known_steps(const std::filesystem::path& run) {
  const auto steps = CheckpointFolder(run / "checkpoints").steps();
  return steps.empty() ? "none" : fmt::format("{}", fmt::join(steps, ", "));
}

// Never silently an older one: whoever wants that says so.
Failure damaged(const std::filesystem::path& run, const std::string& which, const std::string& reason) {
  const std::string sound = sound_steps(run);
  const std::string instead = which == "best" ? "latest" : sound.substr(0, sound.find(','));
  return failure(
      "[run] expected the {} checkpoint to be sound, got: {} (sound are those of steps {}; choose one, as by "
      "--checkpoint {})",
      which, reason, sound, instead);
}

Result<Checkpoint> newest(const std::filesystem::path& run, const std::filesystem::path& folder,
                          const std::string& which) {
  auto loaded = CheckpointFolder(folder).load_latest();
  if (!loaded) return loaded.failure();
  if (loaded->skipped.empty()) return std::move(loaded->checkpoint);
  return damaged(run, which, loaded->skipped.front());
}

// Metric and value for which a checkpoint was kept as the best, from the callback's state.
struct Kept {
  std::string metric;
  double value = 0;
  bool lowest = false;  // lower is better
};

std::optional<Kept> why_kept(const Checkpoint& checkpoint) {
  try {
    const auto& told = checkpoint.extra.at("callbacks").at("checkpoints");
    return Kept{told.at("metric").get<std::string>(), told.at("best").get<double>(), told.at("lowest").get<bool>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

bool better(const Kept& a, const Kept& b) {
  return a.metric == b.metric && (a.lowest ? a.value < b.value : a.value > b.value);
}

// Compares values of the metric that the newest was kept for: after a rollback, a later checkpoint need not be the
// best.
Result<Checkpoint> best(const std::filesystem::path& run) {
  const std::filesystem::path folder = run / "checkpoints-best";
  auto chosen = newest(run, folder, "best");
  if (!chosen) return chosen;
  auto why = why_kept(*chosen);
  const CheckpointFolder all(folder);
  for (const std::int64_t step : all.steps()) {
    if (!why || step == chosen->step) continue;
    auto other = all.load(step);
    if (!other) return damaged(run, "best", other.error());
    const auto its = why_kept(*other);
    if (!its || !better(*its, *why)) continue;
    chosen = std::move(other);
    why = its;
  }
  return chosen;
}

}  // namespace

Result<Checkpoint> load_run_checkpoint(const std::filesystem::path& run, const std::string& which) {
  if (which == "latest") return newest(run, run / "checkpoints", "latest");
  if (which == "best") {
    if (!CheckpointFolder(run / "checkpoints-best").steps().empty()) return best(run);
    return failure(
        "[run] expected a best checkpoint in {}, got none: it is kept where train.best names a metric when the run is "
        "trained (--set train.best=accuracy); there are the steps {}",
        run.string(), known_steps(run));
  }
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), step);
  if (error != std::errc() || end != which.data() + which.size() || step < 0)
    return failure("[run] expected latest, best or the number of a step ({}), got '{}'", known_steps(run), which);
  const CheckpointFolder all(run / "checkpoints");
  const auto steps = all.steps();
  if (std::find(steps.begin(), steps.end(), step) == steps.end())
    return failure("[run] expected a checkpoint of {}, one of the steps {}, got {}", run.string(), known_steps(run),
                   step);
  return all.load(step);
}

void load_weights(nn::Module& net, const Checkpoint& checkpoint) {
  std::vector<NamedTensor> wanted;
  for (auto& [name, tensor] : net.named_parameters()) wanted.push_back({name, tensor});
  for (auto& [name, tensor] : net.named_buffers()) wanted.push_back({name, tensor});
  copy_tensors(checkpoint, wanted, "run");
}

}  // namespace starling::train
