#include "starling/train/run/weights_hash.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/hash.h"

namespace starling::train {

std::string weights_hash(std::span<const NamedTensor> tensors) {
  std::vector<const NamedTensor*> sorted;
  for (const auto& entry : tensors) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  Hash128 hash;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto& [name, tensor] = *sorted[i];
    check(i == 0 || sorted[i - 1]->name != name, "[weights_hash] expected each tensor once, got '{}' twice", name);
    const Tensor dense = data::on_host(tensor);
    // Length prefixes, so that no two sets of tensors concatenate to the same bytes.
    hash.update(std::uint64_t{name.size()});
    hash.update(name);
    hash.update(starling::name(dense.dtype()));
    hash.update(static_cast<std::uint64_t>(dense.rank()));
    for (auto dim : dense.shape()) hash.update(static_cast<std::uint64_t>(dim));
    hash.update(data::host_bytes(dense));
  }
  return hash.hex();
}

}  // namespace starling::train
