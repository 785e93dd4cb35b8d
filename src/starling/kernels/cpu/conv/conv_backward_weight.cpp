#include <algorithm>

#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/conv/conv_im2col.h"
#include "starling/kernels/cpu/conv/im2col.h"
#include "starling/kernels/cpu/reduce/column_sum.h"

namespace starling::kernels {
namespace {

// Algorithms for dy[out, positions] * taps[positions, taps]: the image itself as taps (1 x 1), taps in rows (vectors
// along the taps), or dot products of planes (vectors along the positions), which wins for few taps.
enum class Way { kDirect, kRows, kDots };

// Row stride of the taps: rows a multiple of 1 KB apart would all fall into the same few sets of the L1 cache.
std::int64_t row_ld(std::int64_t taps) {
  const std::int64_t ld = whole_lanes(taps);
  return ld % 256 == 0 ? ld + kConvLanes : ld;
}

Way choose_way(const Conv2dShape& s) {
  if (s.is_pointwise()) return Way::kDirect;
  // Estimated cycles of one image: multiply-adds, then copying runs of kernel_w taps, or adding up lanes.
  const std::int64_t positions = s.positions();
  const std::int64_t rows =
      s.group_out() * whole_lanes(s.taps()) * positions / kConvLanes + 2 * positions * s.group_in() * s.kernel_h;
  const std::int64_t dots = s.group_out() * s.taps() * (positions + positions / 8 + 9 * kConvLanes) / kConvLanes;
  return dots < rows ? Way::kDots : Way::kRows;
}

class BackwardWeight {
 public:
  BackwardWeight(const Conv2dShape& shape, int threads, void* scratch = nullptr)
      : s_(shape),
        planes_(planes_of(shape)),
        way_(choose_way(shape)),
        ld_(row_ld(shape.taps())),
        cut_(cut(threads)),
        whole_(plan_band(0)),
        last_(plan_band(cut_.bands - 1)),
        carver_(scratch) {
    table_ = carver_.take<std::int64_t>(way_ == Way::kDots ? s_.taps() : 0);
    product_ = std::max(whole_.scratch_per_thread, last_.scratch_per_thread);
    product_scratch_ = carver_.take<char>(static_cast<std::int64_t>(product_) * cut_.threads);
    taps_floats_ = taps_floats();
    taps_ = carver_.take<float>(taps_floats_ * cut_.threads);
    sums_floats_ = s_.out_channels * ld_ + whole_lanes(s_.out_channels);
    sums_ = carver_.take<float>(sums_floats_ * cut_.threads);
  }

  std::size_t scratch_bytes() const { return carver_.used(); }

  void run(const float* x, const float* dy, float* dw, float* db, bool accumulate) {
    const std::int64_t tasks = s_.batch * cut_.bands;
    if (tasks == 0) std::fill(sums_, sums_ + sums_floats_, 0.0F);
    if (way_ == Way::kDots) fill_tap_table(s_, cut_.plane_ld(s_), table_);
    share_tasks(tasks, cut_.threads, [&](int thread, std::int64_t task) {
      const bool first = task == tasks * thread / cut_.threads;
      run_task(thread, task, x, dy, db != nullptr, first);
    });
    add_thread_sums(dw, db, accumulate);
  }

 private:
  ConvCut cut(int threads) const {
    if (way_ != Way::kDots) return cut_conv2d(s_, ld_ * s_.out_w(), 0, threads, true);
    const std::int64_t halo = shares_rows(s_) ? (s_.kernel_h - 1) * s_.dilation_h : 0;
    return cut_conv2d(s_, planes_.taps() * s_.out_w(), halo, threads, true);
  }

  std::int64_t taps_floats() const {
    if (way_ == Way::kDirect) return 0;
    const std::int64_t matrix =
        way_ == Way::kDots ? planes_.taps() * cut_.plane_ld(s_) : cut_.band_positions(s_, 0) * ld_;
    return whole_lanes(matrix) + 2 * kTapsSlack;
  }

  GemmPlan plan_band(std::int64_t band) const {
    GemmShape product{
        .m = s_.group_out(), .n = s_.taps(), .k = cut_.band_positions(s_, band), .lda = s_.positions(), .ldc = ld_};
    if (way_ == Way::kRows) {
      product.n = whole_lanes(s_.taps());  // multiplies the gap after the taps too, which needs no masks
      product.ldb = ld_;
      return plan_gemm(product, 1);
    }
    product.trans_b = true;
    product.ldb = s_.positions();
    product.b_table = way_ == Way::kDots;
    return plan_gemm(product, 1);
  }

  const float* load_taps(int thread, RowRange rows, const float* image) {
    float* taps = taps_ + thread * taps_floats_ + kTapsSlack;
    if (way_ == Way::kDirect) return image + rows.begin * s_.out_w();
    if (way_ == Way::kRows) {
      image_to_rows(s_, image, rows, taps, ld_);
    } else {
      image_to_columns(planes_, image, cut_.with_halo(rows), taps, cut_.plane_ld(s_));
    }
    return taps;
  }

  void run_task(int thread, std::int64_t task, const float* x, const float* dy, bool bias, bool first) {
    const std::int64_t band = task % cut_.bands;
    const RowRange rows = cut_.band(s_, band);
    float* sums = sums_ + thread * sums_floats_;
    for (std::int64_t g = 0; g < s_.groups; ++g) {
      const std::int64_t at = task / cut_.bands * s_.groups + g;
      const float* gradient = dy + at * s_.group_out() * s_.positions() + rows.begin * s_.out_w();
      const float* taps = load_taps(thread, rows, x + at * s_.group_in() * s_.in_h * s_.in_w);
      gemm(band + 1 < cut_.bands ? whole_ : last_, gradient, taps, sums + g * s_.group_out() * ld_,
           {.accumulate = !first}, product_scratch_ + static_cast<std::size_t>(thread) * product_,
           way_ == Way::kDots ? table_ : nullptr);
      if (!bias) continue;
      row_sum(gradient, s_.group_out(), cut_.band_positions(s_, band), s_.positions(),
              sums + s_.out_channels * ld_ + g * s_.group_out(), !first);
    }
  }

  void add_thread_sums(float* dw, float* db, bool accumulate) const {
    const std::int64_t grain = std::max<std::int64_t>(1, 64 * 1024 / std::max<std::int64_t>(1, s_.taps()));
    parallel_for(s_.out_channels, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        for (int t = 0; t < cut_.threads; ++t) {
          const float* from = sums_ + t * sums_floats_;
          const bool adds = accumulate || t > 0;
          add_to(dw + o * s_.taps(), from + o * ld_, s_.taps(), adds);
          if (db) add_to(db + o, from + s_.out_channels * ld_ + o, 1, adds);
        }
      }
    });
  }

  static void add_to(float* to, const float* from, std::int64_t count, bool adds) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = adds ? to[i] + from[i] : from[i];
  }

  const Conv2dShape& s_;
  Conv2dShape planes_;
  Way way_;
  std::int64_t ld_;
  ConvCut cut_;
  GemmPlan whole_;
  GemmPlan last_;
  ScratchCarver carver_;
  std::int64_t* table_ = nullptr;
  std::size_t product_ = 0;
  char* product_scratch_ = nullptr;
  std::int64_t taps_floats_ = 0;
  float* taps_ = nullptr;
  std::int64_t sums_floats_ = 0;
  float* sums_ = nullptr;
};

}  // namespace

std::size_t conv2d_backward_weight_scratch(const Conv2dShape& shape, int threads) {
  check_conv2d(shape);
  return BackwardWeight(shape, threads).scratch_bytes();
}

void conv2d_backward_weight(const Conv2dShape& shape, const float* x, const float* dy, float* dw, float* db,
                            bool accumulate, void* scratch, int threads) {
  check_conv2d(shape);
  BackwardWeight(shape, threads, scratch).run(x, dy, dw, db, accumulate);
}

}  // namespace starling::kernels
