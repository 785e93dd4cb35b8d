#include "starling/train/run/copy_tensors.h"

#include <cstring>
#include <unordered_map>

#include "starling/base/error.h"
#include "starling/base/file/mapped_guard.h"

namespace starling::train {
namespace {

bool is_piece(const Tensor& tensor, const dist::ShardedState* sharded) {
  return sharded != nullptr && sharded->piece(tensor) != nullptr;
}

}  // namespace

void fetch_into(const Checkpoint& from, const NamedTensor& saved, const Tensor& to, const dist::ShardedState* sharded) {
  const auto size = static_cast<std::int64_t>(size_of(to.dtype()));
  std::int64_t first = 0;
  if (is_piece(to, sharded)) {
    from.fetch(saved, [&](std::span<const std::byte> bytes) {
      sharded->put(to, first, bytes);
      first += std::ssize(bytes) / size;
      return true;
    });
    return;
  }
  const bool direct = to.device() == kCpu && to.contiguous();
  const Tensor host = direct ? to : empty(to.shape(), to.dtype());
  from.fetch(saved, [&](std::span<const std::byte> bytes) {
    std::memcpy(static_cast<std::byte*>(host.raw()) + first * size, bytes.data(), bytes.size());
    first += std::ssize(bytes) / size;
    return true;
  });
  if (!direct) return copy_into(to, host);
  to.impl()->storage->bump_version();
}

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
    const Tensor& value = *saved.at(name);
    if (from.fetch)
      fetch_into(from, {name, value}, tensor, sharded);
    else if (is_piece(tensor, sharded))
      sharded->put(tensor, value);
    else
      copy_into(tensor, value);
    if (value.device() == kCpu) check_mapped(value.raw());
  }
}

}  // namespace starling::train
