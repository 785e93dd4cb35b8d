#include "starling/train/run/copy_tensors.h"

#include <unordered_map>

#include "starling/base/error.h"
#include "starling/base/mapped_guard.h"

namespace starling::train {

void copy_tensors(const Checkpoint& from, const std::vector<NamedTensor>& to, const char* who,
                  const dist::ShardedState* sharded) {
  std::unordered_map<std::string, const Tensor*> saved;
  for (const auto& [name, tensor] : from.tensors) saved[name] = &tensor;
  for (const auto& [name, tensor] : to) {
    const auto found = saved.find(name);
    if (found == saved.end()) fail("[{}] expected '{}' in the checkpoint of step {}, got none", who, name, from.step);
    if (found->second->type() != tensor.type())
      fail("[{}] expected '{}' of {} in the checkpoint of step {}, got {}", who, name, to_string(tensor.type()),
           from.step, to_string(found->second->type()));
  }
  for (const auto& [name, tensor] : to) {
    if (sharded != nullptr && sharded->piece(tensor) != nullptr)
      sharded->put(tensor, *saved.at(name));
    else
      copy_into(tensor, *saved.at(name));
    check_mapped(saved.at(name)->raw());
  }
}

}  // namespace starling::train
