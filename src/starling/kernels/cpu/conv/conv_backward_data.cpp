#include <algorithm>

#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/conv/conv_im2col.h"
#include "starling/kernels/cpu/conv/im2col.h"

namespace starling::kernels {
namespace {

class BackwardData {
 public:
  BackwardData(const Conv2dShape& shape, int threads, void* scratch = nullptr)
      : s_(shape),
        planes_(planes_of(shape)),
        direct_(shape.is_pointwise()),
        shared_(shares_rows(shape)),
        cut_(cut_conv2d(shape, planes_.taps() * shape.out_w(), shared_ ? (shape.kernel_h - 1) * shape.dilation_h : 0,
                        threads, false)),
        whole_(plan_band(0)),
        last_(plan_band(cut_.bands - 1)),
        carver_(scratch) {
    sliced_ = carver_.take<float>(shared_ ? s_.out_channels * s_.taps() : 0);
    product_ = std::max(whole_.scratch_per_thread, last_.scratch_per_thread);
    product_scratch_ = carver_.take<char>(static_cast<std::int64_t>(product_) * cut_.threads);
    taps_floats_ = direct_ ? 0 : whole_lanes(planes_.taps() * cut_.plane_ld(s_)) + 2 * kTapsSlack;
    taps_ = carver_.take<float>(taps_floats_ * cut_.threads);
  }

  std::size_t scratch_bytes() const { return carver_.used(); }

  void run(const float* dy, const float* w, float* dx) {
    if (shared_) slice_weights(w);
    share_tasks(s_.batch, cut_.threads, [&](int thread, std::int64_t sample) {
      for (std::int64_t g = 0; g < s_.groups; ++g) {
        const std::int64_t at = sample * s_.groups + g;
        const std::int64_t size = s_.group_in() * s_.in_h * s_.in_w;
        float* image = dx + at * size;
        if (!direct_) std::fill(image, image + size, 0.0F);
        const float* gradient = dy + at * s_.group_out() * s_.positions();
        for (std::int64_t band = 0; band < cut_.bands; ++band) run_band(thread, g, band, gradient, w, image);
      }
    });
  }

 private:
  GemmPlan plan_band(std::int64_t band) const {
    return plan_gemm({.m = planes_.taps(),
                      .n = cut_.band_positions(s_, band),
                      .k = s_.group_out(),
                      .trans_a = true,
                      .ldb = s_.positions(),
                      .ldc = direct_ ? s_.positions() : cut_.plane_ld(s_)},
                     1);
  }

  // Reorders weights to [kernel_h][out_channels][channel, kw]: one matrix per kernel row.
  void slice_weights(const float* w) {
    const std::int64_t taps = planes_.taps();
    for (std::int64_t o = 0; o < s_.out_channels; ++o) {
      for (std::int64_t c = 0; c < s_.group_in(); ++c) {
        for (std::int64_t kh = 0; kh < s_.kernel_h; ++kh, w += s_.kernel_w) {
          std::copy(w, w + s_.kernel_w, sliced_ + (kh * s_.out_channels + o) * taps + c * s_.kernel_w);
        }
      }
    }
  }

  void run_band(int thread, std::int64_t group, std::int64_t band, const float* gradient, const float* w,
                float* image) {
    const GemmPlan& plan = band + 1 < cut_.bands ? whole_ : last_;
    void* product = product_scratch_ + static_cast<std::size_t>(thread) * product_;
    const RowRange rows = cut_.band(s_, band);
    gradient += rows.begin * s_.out_w();
    w += group * s_.group_out() * s_.taps();
    if (direct_) {
      gemm(plan, w, gradient, image + rows.begin * s_.out_w(), {}, product);
      return;
    }
    float* taps = taps_ + thread * taps_floats_ + kTapsSlack;
    const std::int64_t ld = cut_.plane_ld(s_);
    if (shared_) {
      // Accumulates the product of every kernel row into the same planes, further down.
      std::fill(taps, taps + planes_.taps() * ld, 0.0F);
      for (std::int64_t kh = 0; kh < s_.kernel_h; ++kh) {
        gemm(plan, sliced_ + (kh * s_.out_channels + group * s_.group_out()) * planes_.taps(), gradient,
             taps + kh * s_.dilation_h * s_.out_w(), {.accumulate = true}, product);
      }
    } else {
      gemm(plan, w, gradient, taps, {}, product);
    }
    add_columns_to_image(planes_, taps, ld, cut_.with_halo(rows), image);
  }

  const Conv2dShape& s_;
  Conv2dShape planes_;
  bool direct_;
  bool shared_;
  ConvCut cut_;
  GemmPlan whole_;
  GemmPlan last_;
  ScratchCarver carver_;
  float* sliced_ = nullptr;
  std::size_t product_ = 0;
  char* product_scratch_ = nullptr;
  std::int64_t taps_floats_ = 0;
  float* taps_ = nullptr;
};

}  // namespace

std::size_t conv2d_backward_data_scratch(const Conv2dShape& shape, int threads) {
  check_conv2d(shape);
  return BackwardData(shape, threads).scratch_bytes();
}

void conv2d_backward_data(const Conv2dShape& shape, const float* dy, const float* w, float* dx, void* scratch,
                          int threads) {
  check_conv2d(shape);
  BackwardData(shape, threads, scratch).run(dy, w, dx);
}

}  // namespace starling::kernels
