#pragma once

#include <optional>

#include "starling/kernels/cpu/simd/block.h"
#include "starling/ops/def/op_def.h"

namespace starling::kernels {

// Vector function of an elementwise op for operands of these dtypes; null where there is none. `entry` lives as long as
// the process.
struct OpBlock {
  const BlockEntry* entry = nullptr;
  BlockType lane = BlockType::f32;
  BlockFn fn = nullptr;
  explicit operator bool() const { return fn != nullptr; }
};
OpBlock find_block(const OpDef& op, std::span<const DType> operands);

std::optional<BlockType> lane_of(DType dtype);

}  // namespace starling::kernels
