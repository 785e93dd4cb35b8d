#include <algorithm>

#include "starling/base/error.h"
#include "starling/base/round_up.h"
#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/kernels/cpu/gemm/gemm_blocks.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kVectorLanes = 16;

std::int64_t divide_up(std::int64_t x, std::int64_t y) { return (x + y - 1) / y; }

// Cost of transposing an element, in sixteenths of a multiply-add; measured.
constexpr std::int64_t kTransposeCost = 6;

// NT product (both operands contiguous along k): true if A rather than B should become the transposed panel.
bool better_swapped(const GemmShape& s, int threads) {
  const std::int64_t swapped_multiply = s.n * round_up(s.m, kVectorLanes) * s.k / threads;
  const std::int64_t straight_multiply = s.m * round_up(s.n, kVectorLanes) * s.k / threads;
  // A thin panel is packed by every thread; a wide one is shared out.
  const std::int64_t swapped_pack = s.m * s.k / (s.m > s.n ? threads : 1) + s.m * s.n / threads;
  const std::int64_t straight_pack = s.n * s.k / (s.n > s.m ? threads : 1);
  return swapped_multiply + kTransposeCost * swapped_pack < straight_multiply + kTransposeCost * straight_pack;
}

// TN product (both operands contiguous along their outer sizes). The broadcast operand is read a few columns at a time,
// row after row: slow for a matrix beyond the caches, so the narrower one should be it.
bool better_read_straight(const GemmShape& s) {
  constexpr std::int64_t kBeyondCaches = 2 * 1024 * 1024;  // elements
  return s.trans_a && !s.trans_b && !s.b_padded && s.m >= 2 * s.n && s.n >= kVectorLanes && s.m * s.k >= kBeyondCaches;
}

bool better_dotted(const GemmShape& s) {
  return !s.trans_a && s.trans_b && (s.b_table || std::min(s.m, s.n) < kDotBelow);
}

void choose_operands(GemmPlan& plan, const GemmShape& s, int threads) {
  const std::int64_t lda = s.lda ? s.lda : (s.trans_a ? s.m : s.k);
  const std::int64_t ldb = s.ldb ? s.ldb : (s.trans_b ? s.k : s.n);
  plan.ldc = s.ldc ? s.ldc : s.n;
  plan.k = s.k;
  plan.dot = better_dotted(s);
  plan.swapped = s.trans_b ? !plan.dot && (s.trans_a || better_swapped(s, threads)) : better_read_straight(s);
  plan.rows = plan.swapped ? s.n : s.m;
  plan.cols = plan.swapped ? s.m : s.n;
  plan.ld_scalars = plan.swapped ? ldb : lda;
  plan.ld_vectors = plan.swapped ? lda : ldb;
  plan.scalars_along_rows = plan.swapped ? !s.trans_b : s.trans_a;
  plan.vectors_along_k = plan.swapped ? !s.trans_a : s.trans_b;
  plan.vectors_padded = s.b_padded && !s.trans_b;
}

// True if threads should split rows. Each thread should read only its part of the largest matrix. If that is the result
// (a weight gradient), it is split by rows, as the forward pass splits the weights: a row of weights then stays with
// one core through the whole step, and no cache lines move between cores in the update.
bool better_by_rows(const GemmPlan& plan) {
  const bool result_is_largest = plan.k <= std::min(plan.rows, plan.cols);
  if (result_is_largest && plan.rows >= plan.threads * kVectorLanes) return true;
  return plan.rows >= plan.cols;
}

void choose_threads(GemmPlan& plan, int threads) {
  const std::int64_t work = plan.rows * plan.cols * plan.k;
  const std::int64_t useful = std::max<std::int64_t>(1, work / kWorkPerThread);
  plan.threads = static_cast<int>(std::min<std::int64_t>(threads, useful));
  const std::int64_t row_unit = kVectorLanes;
  plan.split_rows = better_by_rows(plan);
  const std::int64_t most = plan.split_rows ? divide_up(plan.rows, row_unit) : divide_up(plan.cols, kVectorLanes);
  plan.threads = static_cast<int>(std::clamp<std::int64_t>(most, 1, plan.threads));
}

}  // namespace

GemmPlan plan_gemm(const GemmShape& shape, int threads, std::size_t element_bytes) {
  check(shape.m >= 0 && shape.n >= 0 && shape.k >= 0, "[gemm] expected sizes of 0 or more, got {} x {} x {}", shape.m,
        shape.n, shape.k);
  check(threads >= 1, "[gemm] expected at least one thread, got {}", threads);
  check(!shape.b_table || !shape.trans_a, "[gemm] expected a plain A with a table of rows of B, got a transposed one");
  GemmPlan plan;
  choose_operands(plan, shape, threads);
  plan.pack_vectors = !plan.vectors_along_k && plan.rows >= kPackFromRows && plan.k > kPanelRowsInL1;
  choose_threads(plan, threads);
  if (plan.dot) return plan;
  const bool strided = plan.scalars_along_rows && plan.k > kMaxKBlock;
  const std::int64_t blocks = std::max<std::int64_t>(1, divide_up(plan.k, strided ? kStridedKBlock : kMaxKBlock));
  plan.k_block = divide_up(plan.k, blocks);
  const bool packs = plan.vectors_along_k || plan.pack_vectors || (plan.cols % kPanelCols != 0 && !plan.vectors_padded);
  plan.panel_elements = packs ? plan.k_block * kPanelCols : 0;
  const std::int64_t partial = blocks > 1 ? plan.rows * kPanelCols : 0;
  plan.scratch_per_thread = static_cast<std::size_t>(plan.panel_elements + partial) * element_bytes;
  return plan;
}

}  // namespace starling::kernels
