#include "starling/kernels/cpu/simd/block.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/stream.h"

namespace starling {
namespace {

// Below this a second thread costs more than it brings.
constexpr std::int64_t kGrain = 16384;

// A thread's piece of the result from which on it goes past the caches: together with the operands it fills them.
constexpr std::int64_t kStreamBytes = std::int64_t{8} << 20;
constexpr std::size_t kLine = 64;
constexpr std::int64_t kChunkBytes = 4096;  // on its way, the result stays in L1

struct Piece {
  const BlockEntry& entry;
  BlockType lane;
  unsigned scalars;
  const double* params;

  void run(const void* const* in, void* out, std::int64_t begin, std::int64_t end, void* into) const {
    const void* shifted[3] = {};
    for (int k = 0; k < entry.arity; ++k) {
      const std::int64_t offset = (scalars >> k & 1u) != 0 ? 0 : begin * entry.in_bytes(k, lane);
      shifted[k] = static_cast<const std::byte*>(in[k]) + offset;
    }
    void* target = into ? into : static_cast<std::byte*>(out) + begin * entry.out_bytes(lane);
    entry.of(lane)(shifted, scalars, target, end - begin, params);
  }

  // Chunk by chunk through a buffer, but for what lies before the first and behind the last whole line of the result.
  void run_streamed(const void* const* in, void* out, std::int64_t begin, std::int64_t end) const {
    alignas(kLine) std::byte buffer[kChunkBytes];
    const std::int64_t size = entry.out_bytes(lane), chunk = kChunkBytes / size;
    auto* target = static_cast<std::byte*>(out);
    const auto past_line = reinterpret_cast<std::uintptr_t>(target + begin * size) % kLine;
    const std::int64_t head = past_line == 0 ? 0 : static_cast<std::int64_t>(kLine - past_line) / size;
    run(in, out, begin, begin + head, nullptr);
    for (begin += head; begin + chunk <= end; begin += chunk) {
      run(in, out, begin, begin + chunk, buffer);
      stream_copy(target + begin * size, buffer, kChunkBytes);
    }
    stream_end();
    run(in, out, begin, end, nullptr);
  }

  bool writes_over(const void* const* in, const void* out) const {
    return std::find(in, in + entry.arity, out) != in + entry.arity;
  }
};

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
  const Piece piece{entry, lane, scalars, params};
  const bool in_place = piece.writes_over(in, out);
  parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (!in_place && (end - begin) * entry.out_bytes(lane) >= kStreamBytes)
      piece.run_streamed(in, out, begin, end);
    else
      piece.run(in, out, begin, end, nullptr);
  });
}

}  // namespace starling
