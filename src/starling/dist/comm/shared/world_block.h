#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "starling/dist/comm/shared/process.h"

namespace starling {

// What lies in the shared memory: at its beginning a WorldBlock and the record of each rank, then the block of the
// group of all ranks (group_block.h), then the ranks' arenas. Offsets are from the beginning: every process has it
// elsewhere.

struct RankRecord {
  alignas(64) std::atomic<std::int32_t> pid{0};  // 0: has not joined
  std::atomic<std::uint64_t> process_start{0};
  std::atomic<std::uint32_t> present{0};                   // 0 again: it has gone in good order
  std::atomic<std::uint64_t> last_group{0}, last_post{0};  // offsets: where its last call can be read

  // Rung when something has changed that the rank may be sleeping for.
  alignas(64) std::atomic<std::uint32_t> bell{0};
  std::atomic<std::uint32_t> sleepers{0};
  std::atomic<std::int32_t> core{-1};  // where it waited last

  // Whether it is reading or writing buffers of other ranks just now.
  alignas(64) std::atomic<std::uint32_t> visiting{0};
};

struct WorldBlock {
  static constexpr std::uint64_t kMagic = 0x53746172'6c696e67ull;
  enum Fate : std::uint32_t { whole = 0, breaking = 1, broken = 2 };

  std::uint64_t magic = kMagic;
  std::uint64_t layout = 0;  // of all that lies here: differs where ranks were built from different sources
  std::uint32_t world = 0;
  std::uint64_t group = 0;                    // offset of the block of all ranks
  std::uint64_t arenas = 0, arena_bytes = 0;  // offset of rank 0's arena; each has as many
  alignas(64) std::atomic<std::uint32_t> joined{0};
  alignas(64) std::atomic<std::uint32_t> fate{whole};
  std::array<char, 4096> reason{};  // ended by zero; written by the one that set the fate to breaking
};

}  // namespace starling
