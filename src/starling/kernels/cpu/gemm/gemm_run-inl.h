// Per-target: one thread's share of a product. Included once for each Highway target.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/kernels/cpu/gemm/gemm_blocks.h"
#include "starling/kernels/cpu/gemm/gemm_dot-inl.h"
#include "starling/kernels/cpu/gemm/gemm_finish-inl.h"
#include "starling/kernels/cpu/gemm/gemm_pack-inl.h"
#include "starling/kernels/cpu/gemm/gemm_tile-inl.h"

#if defined(STARLING_GEMM_RUN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_GEMM_RUN_INL_H
#undef STARLING_GEMM_RUN_INL_H
#else
#define STARLING_GEMM_RUN_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE::gemm_simd {

// Arguments of one thread's share. Double precision has no epilogue but accumulate.
template <class T>
struct GemmJob {
  const GemmPlan* plan;
  const T* scalars;
  const T* vectors;
  T* c;
  const GemmEpilogue* epilogue;
  const std::int64_t* table;  // offsets of the vectors' rows, or null
  T* panel;                   // k_block x kPanelCols
  T* partial;                 // rows x kPanelCols, when k is cut into blocks
};

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

template <class T>
class GemmShare {
 public:
  GemmShare(const GemmJob<T>& job, Range rows, Range cols)
      : job_(job),
        plan_(*job.plan),
        rows_(rows),
        cols_(cols),
        straight_(!plan_.swapped && ends_in_tile<T>(*job.epilogue)) {}

  void run() {
    if (plan_.dot) return run_dots();
    // Short sum over a wide C: all panels over a few rows at a time, so that C is traversed along its rows, page by
    // page.
    const bool short_sum = plan_.k <= kPanelRowsInL1 && !plan_.vectors_along_k && !plan_.pack_vectors;
    const Range all = rows_;
    const std::int64_t chunk = short_sum ? kRowChunk : all.end - all.begin;
    for (std::int64_t r = all.begin; r < all.end; r += chunk) {
      rows_ = {r, std::min(r + chunk, all.end)};
      run_panels();
    }
  }

 private:
  static constexpr std::int64_t kLanes = kVectorLanes<T>;

  void run_panels() {
    constexpr std::int64_t kStep = kTileVectors * kLanes;
    for (std::int64_t c = cols_.begin; c < cols_.end; c += kStep) run_panel({c, std::min(c + kStep, cols_.end)});
  }

  void run_panel(Range cols) {
    const std::int64_t width = (cols.end - cols.begin + kLanes - 1) / kLanes * kLanes;
    std::int64_t k0 = 0;
    do {
      const std::int64_t k1 = std::min(k0 + plan_.k_block, plan_.k);
      load_panel(cols, width, k0, k1);
      run_rows(cols, width, {k0, k1});
      k0 = k1;
    } while (k0 < plan_.k);
  }

  // Points b_ at the panel's vectors: in place if possible, else copied or transposed into scratch.
  void load_panel(Range cols, std::int64_t width, std::int64_t k0, std::int64_t k1) {
    const std::int64_t count = cols.end - cols.begin;
    b_ = {job_.panel, width, nullptr};
    fetch_ = 0;
    access_ = plan_.scalars_along_rows ? TileAccess::kAlongRows : TileAccess::kAlongK;
    if (plan_.vectors_along_k) {
      pack_transposed(job_.vectors + cols.begin * plan_.ld_vectors + k0, plan_.ld_vectors, k1 - k0, count, width,
                      job_.panel);
      return;
    }
    const std::int64_t* table = job_.table ? job_.table + k0 : nullptr;
    const T* from = job_.vectors + cols.begin + (table ? 0 : k0 * plan_.ld_vectors);
    if (plan_.pack_vectors || (count != width && !plan_.vectors_padded)) {
      pack_straight(from, plan_.ld_vectors, table, k1 - k0, count, width, job_.panel);
      return;
    }
    b_ = {from, plan_.ld_vectors, table};
    fetch_ = kFetchRows * plan_.ld_vectors;
    if (table) access_ = TileAccess::kIndirect;
  }

  void run_rows(Range cols, std::int64_t width, Range k) {
    if (straight_ && width == cols.end - cols.begin) {
      run_straight(cols, width, k);
    } else {
      run_blocks(cols, width, k);
    }
  }

  // Stores tiles directly to C.
  void run_straight(Range cols, std::int64_t width, Range k) {
    TileEpilogue<T> epilogue{.accumulate = k.begin > 0 || job_.epilogue->accumulate, .fetch = fetch_};
    if constexpr (std::is_same_v<T, float>) {
      const GemmEpilogue& e = *job_.epilogue;
      epilogue.relu = e.activation == GemmActivation::kRelu && k.end == plan_.k;
      if (k.begin == 0 && e.bias_m) epilogue.row_bias = e.bias_m + rows_.begin;
      if (k.begin == 0 && e.bias_n) epilogue.col_bias = e.bias_n + cols.begin;
    }
    gemm_rows(rows_.end - rows_.begin, static_cast<int>(width / kLanes), access_, k.end - k.begin,
              Scalars<T>{scalars_at(rows_.begin, k.begin), plan_.ld_scalars}, b_,
              job_.c + rows_.begin * plan_.ldc + cols.begin, plan_.ldc, epilogue);
  }

  // Stores tiles to a small block (or to partial sums before the last block of k), and from there through the epilogue
  // to C.
  void run_blocks(Range cols, std::int64_t width, Range k) {
    const int vectors = static_cast<int>(width / kLanes);
    const bool blocked = plan_.k_block < plan_.k;
    const bool last = k.end == plan_.k;
    HWY_ALIGN T buffer[kTransposedGroup * kPanelCols];
    for (std::int64_t r = rows_.begin; r < rows_.end;) {
      const std::int64_t left = rows_.end - r;
      const std::int64_t count = plan_.swapped ? std::min(kTransposedGroup, left) : next_tile_rows(left, vectors);
      T* block = blocked ? job_.partial + (r - rows_.begin) * kPanelCols : buffer;
      const std::int64_t ld = blocked ? kPanelCols : width;
      gemm_rows(count, vectors, access_, k.end - k.begin, Scalars<T>{scalars_at(r, k.begin), plan_.ld_scalars}, b_,
                block, ld, block_epilogue(r, cols, k));
      if (last && !updates_in_tile(cols)) finish(block, ld, r, count, cols);
      r += count;
    }
  }

  void run_dots() {
    constexpr std::int64_t kRows = 4;
    HWY_ALIGN T block[kRows * kPanelCols];
    for (std::int64_t c = cols_.begin; c < cols_.end; c += kPanelCols) {
      const std::int64_t cols = std::min(kPanelCols, cols_.end - c);
      for (std::int64_t r = rows_.begin; r < rows_.end; r += kRows) {
        const std::int64_t rows = std::min(kRows, rows_.end - r);
        const auto row_of = [&](std::int64_t col) {
          return job_.vectors + (job_.table ? job_.table[c + col] : (c + col) * plan_.ld_vectors);
        };
        dot_rows(rows, cols, plan_.k, job_.scalars + r * plan_.ld_scalars, plan_.ld_scalars, row_of, block, kPanelCols);
        finish_any(block, kPanelCols, r, c, rows, cols);
      }
    }
  }

  const T* scalars_at(std::int64_t row, std::int64_t k) const {
    return job_.scalars + (plan_.scalars_along_rows ? k * plan_.ld_scalars + row : row * plan_.ld_scalars + k);
  }

  // True if a whole tile of a weight gradient goes from registers into the update, without a stop in memory.
  bool updates_in_tile(Range cols) const {
    if (sizeof(T) != sizeof(float) || plan_.swapped || !plan_.scalars_along_rows || plan_.k_block < plan_.k)
      return false;
    const GemmEpilogue& e = *job_.epilogue;
    const bool only_update = e.sgd && e.sgd->velocity && !e.bias_n && !e.bias_m && !e.accumulate &&
                             e.activation == GemmActivation::kNone && e.derivative == GemmActivation::kNone;
    return only_update && (cols.end - cols.begin) % kLanes == 0;
  }

  TileEpilogue<T> block_epilogue(std::int64_t r, Range cols, Range k) const {
    TileEpilogue<T> epilogue{.accumulate = k.begin > 0, .fetch = r == rows_.begin ? fetch_ : 0};
    if constexpr (std::is_same_v<T, float>) {
      const GemmSgd* sgd = job_.epilogue->sgd;
      if (!sgd || plan_.swapped || k.end < plan_.k) return epilogue;
      const std::int64_t at = r * plan_.ldc + cols.begin;
      epilogue.ahead = {sgd->weights + at, sgd->velocity ? sgd->velocity + at : sgd->weights + at, plan_.ldc};
      if (updates_in_tile(cols)) {
        epilogue.sgd = {sgd->weights + at,   sgd->velocity + at, plan_.ldc,
                        *sgd->learning_rate, sgd->weight_decay,  sgd->momentum};
      }
    }
    return epilogue;
  }

  void finish(T* block, std::int64_t ld, std::int64_t r, std::int64_t rows, Range cols) {
    const std::int64_t width = cols.end - cols.begin;
    if (!plan_.swapped) {
      finish_any(block, ld, r, cols.begin, rows, width);
      return;
    }
    if (is_plain(*job_.epilogue) && !job_.epilogue->accumulate) {
      transpose(block, ld, rows, width, job_.c + cols.begin * plan_.ldc + r, plan_.ldc);
      return;
    }
    HWY_ALIGN T turned[kTransposedGroup * kPanelCols];
    transpose(block, ld, rows, width, turned, kTransposedGroup);
    finish_any(turned, kTransposedGroup, cols.begin, r, width, rows);
  }

  void finish_any(T* block, std::int64_t ld, std::int64_t r, std::int64_t c, std::int64_t rows, std::int64_t cols) {
    if constexpr (std::is_same_v<T, float>) {
      finish_block(*job_.epilogue, block, ld, r, c, rows, cols, job_.c, plan_.ldc);
    } else {
      for (std::int64_t i = 0; i < rows; ++i) {
        store_row(block + i * ld, job_.c + (r + i) * plan_.ldc + c, cols, job_.epilogue->accumulate);
      }
    }
  }

  const GemmJob<T>& job_;
  const GemmPlan& plan_;
  Range rows_;
  Range cols_;
  bool straight_;
  Vectors<T> b_ = {};
  std::int64_t fetch_ = 0;
  TileAccess access_ = TileAccess::kAlongK;
};

// Range of `thread` in [0, count), split at multiples of unit.
inline Range share_of(std::int64_t count, std::int64_t unit, int thread, int threads) {
  const std::int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * thread / threads * unit), std::min(count, units * (thread + 1) / threads * unit)};
}

template <class T>
void run_share(const GemmPlan& plan, const T* a, const T* b, T* c, const GemmEpilogue& epilogue,
               const std::int64_t* table, void* scratch, int thread) {
  T* panel =
      reinterpret_cast<T*>(static_cast<char*>(scratch) + plan.scratch_per_thread * static_cast<std::size_t>(thread));
  const GemmJob<T> job{.plan = &plan,
                       .scalars = plan.swapped ? b : a,
                       .vectors = plan.swapped ? a : b,
                       .c = c,
                       .epilogue = &epilogue,
                       .table = table,
                       .panel = panel,
                       .partial = panel + plan.panel_elements};
  const Range all_rows{0, plan.rows};
  const Range all_cols{0, plan.cols};
  const Range rows = plan.split_rows ? share_of(plan.rows, 16, thread, plan.threads) : all_rows;
  const Range cols = plan.split_rows ? all_cols : share_of(plan.cols, 16, thread, plan.threads);
  GemmShare<T>(job, rows, cols).run();
}

}  // namespace HWY_NAMESPACE::gemm_simd
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();
#endif
