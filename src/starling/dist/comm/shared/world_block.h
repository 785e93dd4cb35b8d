#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "starling/dist/comm/shared/process.h"

namespace starling::dist {

// Content of the shared memory: first a WorldBlock and the record of each rank, then the block of the group of all
// ranks (group_block.h), then the ranks' arenas. Offsets count from the beginning, since every process maps it
// elsewhere.

struct RankRecord {
  alignas(64) std::atomic<std::int32_t> pid{0};  // 0: not joined yet
  std::atomic<std::uint64_t> process_start{0};
  std::atomic<std::uint32_t> present{0};                   // back to 0 once the rank has left in good order
  std::atomic<std::uint64_t> last_group{0}, last_post{0};  // offsets of its last call, for diagnostics

  // Notifier: incremented when something changed that the rank may be sleeping for.
  alignas(64) std::atomic<std::uint32_t> notifier{0};
  std::atomic<std::uint32_t> sleepers{0};
  std::atomic<std::int32_t> core{-1};  // core it last waited on

  // Nonzero while it reads or writes buffers of other ranks.
  alignas(64) std::atomic<std::uint32_t> visiting{0};
};

struct WorldBlock {
  static constexpr std::uint64_t kMagic = 0x53746172'6c696e67ull;
  enum Fate : std::uint32_t { whole = 0, breaking = 1, broken = 2 };

  std::uint64_t magic = kMagic;
  std::uint64_t structure = 0;  // hash of the memory structure: differs between incompatible builds
  std::uint32_t world = 0;
  std::uint64_t group = 0;                    // offset of the block of all ranks
  std::uint64_t arenas = 0, arena_bytes = 0;  // offset of rank 0's arena; size of each arena
  alignas(64) std::atomic<std::uint32_t> joined{0};
  alignas(64) std::atomic<std::uint32_t> fate{whole};
  std::array<char, 4096> reason{};  // zero-terminated; written by the rank that set fate to breaking
};

}  // namespace starling::dist
