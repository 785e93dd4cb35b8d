#include "starling/train/run/run_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "starling/base/error.h"
#include "starling/ops/api/random.h"
#include "starling/train/checkpoint/environment.h"
#include "starling/train/checkpoint/finite.h"
#include "starling/train/run/copy_tensors.h"
#include "starling/train/run/launch_id.h"
#include "starling/train/run/refusal.h"

namespace starling::train {
namespace {

std::vector<NamedTensor> tensors_of_run(const RunParts& parts) {
  std::vector<NamedTensor> all;
  for (auto& [name, tensor] : parts.net.named_parameters()) all.push_back({name, tensor});
  for (auto& [name, tensor] : parts.net.named_buffers()) all.push_back({name, tensor});
  for (auto& [name, tensor] : parts.optimizer.state()) all.push_back({name, tensor});
  for (auto& [name, tensor] : parts.scaler) all.push_back({name, tensor});
  all.push_back({"rng", default_generator().key()});
  return all;
}

std::vector<NamedTensor> tensors_of(const Callback& callback) {
  std::vector<NamedTensor> all;
  for (const auto& [name, tensor] : callback.tensors())
    all.push_back({fmt::format("callback.{}.{}", callback.name(), name), tensor});
  return all;
}

bool has_state(const Callback& callback) { return !callback.state().is_null() || !callback.tensors().empty(); }

// Reason why a setting that seems harmless belongs to a run's identity. The length does so only where the schedule
// looks at it.
std::string why_it_matters(const std::string& setting) {
  const bool length = setting == "train.epochs" || setting == "train.steps";
  return length ? ", and the schedule spreads the learning rate over the whole run" : "";
}

}  // namespace

Checkpoint run_checkpoint(std::int64_t step, const RunParts& parts, nlohmann::json extra) {
  Checkpoint checkpoint{.step = step, .tensors = tensors_of_run(parts), .extra = std::move(extra)};
  checkpoint.extra["environment"] = environment_facts();
  if (const std::string launch = launch_id(); !launch.empty()) checkpoint.extra["launch"] = launch;
  nlohmann::json& states = checkpoint.extra["callbacks"] = nlohmann::json::object();
  for (const auto& callback : parts.callbacks) {
    if (!has_state(*callback)) continue;
    states[callback->name()] = callback->state();
    for (auto& tensor : tensors_of(*callback)) checkpoint.tensors.push_back(std::move(tensor));
  }
  return checkpoint;
}

std::string first_non_finite(const RunParts& parts) {
  const auto here = [&](const Tensor& tensor) { return parts.sharded ? parts.sharded->local(tensor) : tensor; };
  const auto first = [&](const std::vector<NamedTensor>& tensors) {
    const auto bad =
        std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) { return !all_finite(here(one.tensor)); });
    return bad == tensors.end() ? std::string() : bad->name;
  };
  std::string name = first(tensors_of_run(parts));
  for (const auto& callback : parts.callbacks) {
    if (name.empty()) name = first(tensors_of(*callback));
  }
  return name;
}

std::vector<std::string> restore_run(const Checkpoint& checkpoint, const RunParts& parts) {
  std::vector<std::string> notes;
  std::vector<NamedTensor> into = tensors_of_run(parts);
  const nlohmann::json states = checkpoint.extra.value("callbacks", nlohmann::json::object());
  for (const auto& callback : parts.callbacks) {
    if (!has_state(*callback)) continue;
    if (!states.contains(callback->name())) {
      notes.push_back(fmt::format("the checkpoint knows nothing of '{}', which starts over", callback->name()));
      continue;
    }
    for (auto& tensor : tensors_of(*callback)) into.push_back(std::move(tensor));
  }
  copy_tensors(checkpoint, into, "train", parts.sharded);
  for (const auto& callback : parts.callbacks) {
    if (has_state(*callback) && states.contains(callback->name())) callback->restore(states.at(callback->name()));
  }
  const auto differences =
      environment_differences(checkpoint.extra.value("environment", nlohmann::json()), environment_facts());
  for (const auto& text : differences) notes.push_back("the machine differs, so may the bits: " + text);
  return notes;
}

void check_identity(const std::map<std::string, std::string>& identity, const nlohmann::json& extra) {
  const nlohmann::json saved = extra.value("identity", nlohmann::json::object());
  std::string differences;
  for (const auto& [what, value] : identity) {
    const std::string before = saved.value(what, "unknown");
    if (before != value)
      differences += fmt::format("{}{} was {}, is {}{}", differences.empty() ? "" : "; ", what, before, value,
                                 why_it_matters(what));
  }
  if (differences.empty()) return;
  throw Refusal(fmt::format(
      "[train] expected a checkpoint of the same run, got one of another: {} (choose another folder, as by --set "
      "train.folder=runs/other, or start over by --resume none)",
      differences));
}

void check_names(const std::vector<CallbackPtr>& callbacks) {
  std::set<std::string> names;
  for (const auto& callback : callbacks) {
    if (has_state(*callback))
      check(names.insert(callback->name()).second,
            "[train] expected callbacks with state of different names, got '{}' twice", callback->name());
  }
}

}  // namespace starling::train
