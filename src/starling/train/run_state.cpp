#include "starling/train/run_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/random.h"
#include "starling/train/checkpoint/environment.h"

namespace starling {
namespace {

nlohmann::json identity_json(const Job& job) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [path, value] : job_identity(job)) json[path] = value;
  return json;
}

void check_same_job(const Job& job, const nlohmann::json& saved) {
  std::string differences;
  for (const auto& [path, value] : job_identity(job)) {
    const std::string before = saved.is_object() ? saved.value(path, "unknown") : "unknown";
    if (before != value)
      differences += fmt::format("{}{} was {}, is {}", differences.empty() ? "" : "; ", path, before, value);
  }
  check(differences.empty(),
        "[train] expected the job whose checkpoints are in {}, got another: {} (choose another train.folder, or start "
        "over "
        "with train.resume: none)",
        job.train.folder.string(), differences);
}

void copy_tensors(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to) {
  for (const auto& [name, tensor] : to) {
    const auto found =
        std::find_if(from.begin(), from.end(), [&](const NamedTensor& saved) { return saved.name == name; });
    check(found != from.end(), "[train] expected '{}' in the checkpoint, got none", name);
    check(found->tensor.type() == tensor.type(), "[train] expected '{}' of {} in the checkpoint, got {}", name,
          to_string(tensor.type()), to_string(found->tensor.type()));
  }
  for (const auto& [name, tensor] : to) {
    const auto found =
        std::find_if(from.begin(), from.end(), [&](const NamedTensor& saved) { return saved.name == name; });
    copy_into(tensor, found->tensor);
  }
}

RunState parse_state(const Checkpoint& checkpoint) {
  const nlohmann::json& run = checkpoint.extra.at("run");
  RunState state;
  state.step = checkpoint.step;
  state.position = {run.at("epoch").get<std::int64_t>(), run.at("sample").get<std::int64_t>()};
  state.samples = run.at("samples").get<std::int64_t>();
  state.seconds = run.at("seconds").get<double>();
  state.epoch_loss = run.at("epoch_loss").get<double>();
  state.epoch_samples = run.at("epoch_samples").get<std::int64_t>();
  state.metrics = run.at("metrics").get<std::map<std::string, double>>();
  return state;
}

}  // namespace

std::vector<NamedTensor> run_tensors(const nn::Module& net, const optim::Sgd& optimizer) {
  std::vector<NamedTensor> all;
  for (auto& [name, tensor] : net.named_parameters()) all.push_back({name, tensor});
  for (auto& [name, tensor] : net.named_buffers()) all.push_back({name, tensor});
  for (auto& [name, tensor] : optimizer.state()) all.push_back({name, tensor});
  all.push_back({"rng", default_generator().key()});
  return all;
}

Checkpoint make_checkpoint(const Job& job, const RunState& state, std::vector<NamedTensor> tensors) {
  return {.step = state.step,
          .tensors = std::move(tensors),
          .extra = {{"job", identity_json(job)},
                    {"environment", environment_facts()},
                    {"run",
                     {{"epoch", state.position.epoch},
                      {"sample", state.position.sample},
                      {"samples", state.samples},
                      {"seconds", state.seconds},
                      {"epoch_loss", state.epoch_loss},
                      {"epoch_samples", state.epoch_samples},
                      {"metrics", state.metrics}}}}};
}

RunState restore(const Job& job, const Checkpoint& checkpoint, const std::vector<NamedTensor>& tensors,
                 std::vector<std::string>& notes) {
  RunState state;
  try {
    check_same_job(job, checkpoint.extra.value("job", nlohmann::json()));
    state = parse_state(checkpoint);
  } catch (const nlohmann::json::exception& e) {
    fail("[train] expected the state of a run in the checkpoint of step {}, got: {}", checkpoint.step, e.what());
  }
  copy_tensors(checkpoint.tensors, tensors);
  notes = environment_differences(checkpoint.extra.value("environment", nlohmann::json()), environment_facts());
  return state;
}

}  // namespace starling
