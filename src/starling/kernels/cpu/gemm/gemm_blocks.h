#pragma once

#include <cstdint>

namespace starling::kernels {

// Block sizes shared by the planner and the kernels. Measured on a core with 32 KB of L1 and 1 MB of L2.

// Width of a panel of the vector operand: four vectors of sixteen floats (narrower targets use less of it).
constexpr std::int64_t kPanelCols = 64;

// Largest k block: panels of kMaxKBlock * kPanelCols floats are 256 KB and stay in L2.
constexpr std::int64_t kMaxKBlock = 1024;

// Largest k block when scalars are contiguous along the rows of C and k is long: a cache line of them for each step of
// k must stay in L1 until the next rows of C have used it.
constexpr std::int64_t kStridedKBlock = 256;

// Panels with fewer rows than this stay in L1 even when read in place, with a stride.
constexpr std::int64_t kPanelRowsInL1 = 96;

// Rows of C processed with all such panels before the next rows: their pages stay in the TLB.
constexpr std::int64_t kRowChunk = 96;

// Number of rows of scalars from which copying a strided panel pays off.
constexpr std::int64_t kPackFromRows = 768;

// Prefetch distance in rows of a strided panel: about the latency of memory.
constexpr std::int64_t kFetchRows = 24;

// Cost of copying an element into a panel, in sixteenths of a multiply-add of one element.
constexpr std::int64_t kCopyCost = 2;

// Dot products beat packing when both operands are contiguous along k and one has fewer rows than this.
constexpr std::int64_t kDotBelow = 4;

// Rows finished together when C is stored transposed: whole cache lines of C, and the buffer stays in L1.
constexpr std::int64_t kTransposedGroup = 48;

// Multiply-adds that pay for one more thread.
constexpr std::int64_t kWorkPerThread = 64 * 1024;

}  // namespace starling::kernels
