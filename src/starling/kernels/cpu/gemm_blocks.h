#pragma once

#include <cstdint>

namespace starling {

// Block sizes shared by the planner and the kernels. Measured on a core with 32 KB of L1 and 1 MB of L2.

// A panel of the vector operand is at most this wide: four vectors of sixteen floats (narrower targets use less of it).
constexpr std::int64_t kPanelCols = 64;

// Panels stay in L2: kMaxKBlock * kPanelCols floats are 256 KB.
constexpr std::int64_t kMaxKBlock = 1024;

// The same where scalars lie along the rows of C and k is long: a cache line of them for each step of k must stay in L1
// until the next rows of C have used it, too.
constexpr std::int64_t kStridedKBlock = 256;

// Panels with fewer rows than this stay in L1 even when they are read in place, with a stride.
constexpr std::int64_t kPanelRowsInL1 = 96;

// Rows of C that all such panels pass before the next rows: their pages stay in the TLB.
constexpr std::int64_t kRowChunk = 96;

// From this many rows of scalars on, copying a strided panel pays.
constexpr std::int64_t kPackFromRows = 768;

// How many rows ahead of its use a strided panel is fetched: about the latency of memory.
constexpr std::int64_t kFetchRows = 24;

// Cost of copying an element into a panel, in sixteenths of a multiply-add of one element.
constexpr std::int64_t kCopyCost = 2;

// When both operands lie along k and one has fewer rows than this, dot products beat packing.
constexpr std::int64_t kDotBelow = 4;

// Rows finished together when C is stored transposed: whole cache lines of C, and the buffer stays in L1.
constexpr std::int64_t kTransposedGroup = 48;

// Multiply-adds that pay for waking one more thread.
constexpr std::int64_t kWorkPerThread = 64 * 1024;

}  // namespace starling
