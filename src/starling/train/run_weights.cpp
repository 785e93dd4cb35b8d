#include "starling/train/run_weights.h"

#include <charconv>
#include <unordered_map>

#include "starling/base/error.h"

namespace starling {
namespace {

Result<Checkpoint> newest(const std::filesystem::path& folder) {
  auto loaded = CheckpointFolder(folder).load_latest();
  if (!loaded) return loaded.failure();
  return std::move(loaded->checkpoint);
}

}  // namespace

Result<Checkpoint> load_run_checkpoint(const std::filesystem::path& run, const std::string& which) {
  if (which == "latest") return newest(run / "checkpoints");
  if (which == "best") return newest(run / "checkpoints-best");
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), step);
  if (error != std::errc() || end != which.data() + which.size() || step < 0)
    return failure("[run] expected latest, best or the number of a step, got '{}'", which);
  return CheckpointFolder(run / "checkpoints").load(step);
}

void load_weights(nn::Module& net, const Checkpoint& checkpoint) {
  std::unordered_map<std::string, const Tensor*> saved;
  for (const auto& [name, tensor] : checkpoint.tensors) saved[name] = &tensor;
  auto wanted = net.named_parameters();
  for (auto& buffer : net.named_buffers()) wanted.push_back(buffer);
  for (const auto& [name, tensor] : wanted) {
    const auto found = saved.find(name);
    check(found != saved.end(), "[run] expected '{}' in the checkpoint of step {}, got none", name, checkpoint.step);
    check(found->second->type() == tensor.type(), "[run] expected '{}' of {} in the checkpoint, got {}", name,
          to_string(tensor.type()), to_string(found->second->type()));
  }
  for (const auto& [name, tensor] : wanted) copy_into(tensor, *saved.at(name));
}

}  // namespace starling
