#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace starling::kernels {

// Element types that elementwise functions are compiled for.
enum class BlockType : std::uint8_t { f32, f64, i32, i64, boolean };
inline constexpr int kLanes = 5;

// One elementwise function over n contiguous elements.
//   in       one pointer per operand (at most three), any alignment
//   scalars  bit k set: operand k is one element, used for all n
//   out      n elements; may be the very array of an operand (in place), must not overlap one otherwise
//   params   constants of the function (a slope, a bound); null when it has none
// Bool operands and outputs are bytes of 0 or 1. Never throws, never allocates, single-threaded.
using BlockFn = void (*)(const void* const* in, unsigned scalars, void* out, std::int64_t n, const double* params);

// Description of an elementwise function. `name` points to static storage.
struct BlockEntry {
  std::string_view name;
  int arity = 0;
  unsigned bool_inputs = 0;  // bit k set: operand k is a bool
  bool bool_output = false;
  std::array<BlockFn, kLanes> fn{};  // by BlockType; null where undefined

  BlockFn of(BlockType lane) const { return fn[static_cast<std::size_t>(lane)]; }
  int in_bytes(int operand, BlockType lane) const;
  int out_bytes(BlockType lane) const;
};

// Elementwise functions by name. Families add their own; look-ups happen when kernels are planned, not when they run.
class BlockTable {
 public:
  void add(const BlockEntry& entry);                    // throws when the name is taken
  const BlockEntry* find(std::string_view name) const;  // null when unknown
  const std::vector<BlockEntry>& entries() const { return entries_; }

 private:
  std::vector<BlockEntry> entries_;
};

// Runs the function over n elements with the threads of this region, each on a contiguous piece.
void run_block(const BlockEntry& entry, BlockType lane, const void* const* in, unsigned scalars, void* out,
               std::int64_t n, const double* params = nullptr);

inline int lane_bytes(BlockType lane) {
  if (lane == BlockType::boolean) return 1;
  return lane == BlockType::f32 || lane == BlockType::i32 ? 4 : 8;
}

inline int BlockEntry::in_bytes(int operand, BlockType lane) const {
  return (bool_inputs >> operand & 1u) != 0 ? 1 : lane_bytes(lane);
}

inline int BlockEntry::out_bytes(BlockType lane) const { return bool_output ? 1 : lane_bytes(lane); }

}  // namespace starling::kernels
