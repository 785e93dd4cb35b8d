#include "starling/kernels/cpu/simd/block.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/parallel.h"

namespace starling::kernels {
namespace {

// Least elements that are worth a second thread.
constexpr std::int64_t kGrain = 16384;

}  // namespace

void BlockTable::add(const BlockEntry& entry) {
  check(find(entry.name) == nullptr, "[blocks] expected a new name, got {} again", entry.name);
  entries_.push_back(entry);
}

const BlockEntry* BlockTable::find(std::string_view name) const {
  const auto it = std::find_if(entries_.begin(), entries_.end(), [&](const BlockEntry& e) { return e.name == name; });
  return it == entries_.end() ? nullptr : &*it;
}

void run_block(const BlockEntry& entry, BlockType lane, const void* const* in, unsigned scalars, void* out,
               std::int64_t n, const double* params) {
  const BlockFn fn = entry.of(lane);
  check(fn != nullptr, "[{}] expected a lane type it is defined for, got lane {}", entry.name, static_cast<int>(lane));
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const void* shifted[3] = {};
    for (int k = 0; k < entry.arity; ++k) {
      const std::int64_t offset = (scalars >> k & 1u) != 0 ? 0 : begin * entry.in_bytes(k, lane);
      shifted[k] = static_cast<const std::byte*>(in[k]) + offset;
    }
    fn(shifted, scalars, static_cast<std::byte*>(out) + begin * entry.out_bytes(lane), end - begin, params);
  });
}

}  // namespace starling::kernels
