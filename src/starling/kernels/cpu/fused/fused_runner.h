#pragma once

#include <cstddef>
#include <vector>

#include "starling/kernels/cpu/fused/fused_schedule.h"

namespace starling::kernels {

// Runs a fused program as one pass over memory: a tile of whole rows, or a piece of a long row, goes through all steps
// while it stays in cache. Threads share the rows; reductions over rows, and over rows that threads share, go through
// totals per thread that are joined in thread order: results depend only on the shape and the number of threads.
// Immutable; may run on several threads and instances at once; never allocates.
class FusedRunner {
 public:
  FusedRunner(FusedGrid grid, FusedSchedule schedule, int threads);

  std::size_t scratch_bytes() const { return static_cast<std::size_t>(threads_) * thread_bytes_ + kLine; }
  void run(void* const* in, void* const* out, void* scratch) const;

  // Largest number of values of a program.
  static constexpr std::size_t kMaxValues = 96;

 private:
  static constexpr std::size_t kLine = 64;
  friend class FusedWorker;

  FusedGrid grid_;
  FusedSchedule schedule_;
  int threads_;
  bool long_rows_;          // tiles are pieces of one row
  bool cut_;                // threads may share one row
  std::int64_t tile_rows_;  // rows of a tile
  std::int64_t tiles_in_line_, blocks_across_;
  std::vector<std::int64_t> totals_;  // per reduction: offset of its totals, in doubles; -1: finished row by row
  // Offsets in bytes within a thread's scratch.
  std::size_t slot_bytes_, buffer_bytes_, spreads_, stages_, buffers_, rows_, row_totals_, thread_totals_,
      thread_bytes_;
};

}  // namespace starling::kernels
