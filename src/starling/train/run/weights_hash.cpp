#include "starling/train/run/weights_hash.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/hash/hash.h"

namespace starling::train {

std::string weights_hash(std::span<const NamedTensor> tensors, const FetchBytes& fetch) {
  std::vector<const NamedTensor*> sorted;
  for (const auto& entry : tensors) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  Hash128 hash;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto& [name, tensor] = *sorted[i];
    check(i == 0 || sorted[i - 1]->name != name, "[weights_hash] expected each tensor once, got '{}' twice", name);
    const bool elsewhere = tensor.device().kind == DeviceKind::null && fetch;
    const Tensor dense = elsewhere ? tensor : data::on_host(tensor);
    // Length prefixes, so that no two sets of tensors concatenate to the same bytes.
    hash.update(std::uint64_t{name.size()});
    hash.update(name);
    hash.update(starling::name(dense.dtype()));
    hash.update(static_cast<std::uint64_t>(dense.rank()));
    for (auto dim : dense.shape()) hash.update(static_cast<std::uint64_t>(dim));
    const auto add = [&](std::span<const std::byte> bytes) {
      hash.update(bytes);
      return true;
    };
    if (elsewhere)
      fetch(*sorted[i], add);
    else
      add(data::host_bytes(dense));
  }
  return hash.hex();
}

}  // namespace starling::train
