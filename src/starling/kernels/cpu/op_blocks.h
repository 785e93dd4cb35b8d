#pragma once

#include <optional>

#include "starling/kernels/cpu/simd/block.h"
#include "starling/ops/op_def.h"

namespace starling {

// The vector function of an elementwise op for operands of these dtypes, or null where there is none. `entry` outlives
// the process's kernels.
struct OpBlock {
  const BlockEntry* entry = nullptr;
  BlockType lane = BlockType::f32;
  BlockFn fn = nullptr;
  explicit operator bool() const { return fn != nullptr; }
};
OpBlock find_block(const OpDef& op, std::span<const DType> operands);

std::optional<BlockType> lane_of(DType dtype);

}  // namespace starling
