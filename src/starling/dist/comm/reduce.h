#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "starling/dist/comm/call.h"

namespace starling::dist {

// Largest count of reduce_block: its accumulator stays in the first-level cache.
inline constexpr std::int64_t kReduceBlock = 2048;

// out[i] = ((s0[i] . s1[i]) . s2[i]) ... over the sources in order, each read from element `offset` on; mean then
// divides by their number. One operand at a time, so the bits do not depend on how the sources are spread over ranks.
// f16 and bf16 accumulate in f32 and round once. No sources give zeros. out is either exactly the part of the first
// source that is read, or overlaps none; count <= kReduceBlock.
void reduce_block(DType dtype, ReduceOp reduce, std::span<const void* const> sources, std::int64_t offset,
                  std::int64_t count, void* out);

// Divides in place, f16 and bf16 through f32; for means whose sums were computed in steps. Floating point only.
void divide_block(DType dtype, void* data, std::int64_t count, int divisor);

}  // namespace starling::dist
