#include <algorithm>

#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/conv/conv_im2col.h"
#include "starling/kernels/cpu/conv/im2col.h"

namespace starling::kernels {
namespace {

class Forward {
 public:
  Forward(const Conv2dShape& shape, int threads, void* scratch = nullptr)
      : s_(shape),
        planes_(planes_of(shape)),
        direct_(shape.is_pointwise()),
        halo_(shares_rows(shape) ? (shape.kernel_h - 1) * shape.dilation_h : 0),
        cut_(cut_conv2d(shape, planes_.taps() * shape.out_w(), halo_, threads, true)),
        whole_(plan_band(0)),
        last_(plan_band(cut_.bands - 1)),
        carver_(scratch) {
    table_ = carver_.take<std::int64_t>(direct_ ? 0 : s_.taps());
    product_ = std::max(whole_.scratch_per_thread, last_.scratch_per_thread);
    product_scratch_ = carver_.take<char>(static_cast<std::int64_t>(product_) * cut_.threads);
    taps_floats_ = direct_ ? 0 : whole_lanes(planes_.taps() * cut_.plane_ld(s_)) + 2 * kTapsSlack;
    taps_ = carver_.take<float>(taps_floats_ * cut_.threads);
  }

  std::size_t scratch_bytes() const { return carver_.used(); }

  void run(const float* x, const float* w, const float* bias, GemmActivation activation, float* y) {
    if (!direct_) fill_tap_table(s_, cut_.plane_ld(s_), table_);
    share_tasks(s_.batch * cut_.bands, cut_.threads, [&](int thread, std::int64_t task) {
      const std::int64_t band = task % cut_.bands;
      const RowRange rows = cut_.band(s_, band);
      float* taps = taps_ + thread * taps_floats_ + kTapsSlack;
      for (std::int64_t g = 0; g < s_.groups; ++g) {
        const std::int64_t at = task / cut_.bands * s_.groups + g;
        const float* image = x + at * s_.group_in() * s_.in_h * s_.in_w;
        if (!direct_) image_to_columns(planes_, image, cut_.with_halo(rows), taps, cut_.plane_ld(s_));
        gemm(band + 1 < cut_.bands ? whole_ : last_, w + g * s_.group_out() * s_.taps(),
             direct_ ? image + rows.begin * s_.out_w() : taps,
             y + at * s_.group_out() * s_.positions() + rows.begin * s_.out_w(),
             {.bias_m = bias ? bias + g * s_.group_out() : nullptr, .activation = activation},
             product_scratch_ + static_cast<std::size_t>(thread) * product_, direct_ ? nullptr : table_);
      }
    });
  }

 private:
  GemmPlan plan_band(std::int64_t band) const {
    return plan_gemm({.m = s_.group_out(),
                      .n = cut_.band_positions(s_, band),
                      .k = s_.taps(),
                      .ldb = s_.positions(),  // of the image itself; taps are addressed through the table
                      .ldc = s_.positions(),
                      .b_padded = !direct_,
                      .b_table = !direct_},
                     1);
  }

  const Conv2dShape& s_;
  Conv2dShape planes_;
  bool direct_;
  std::int64_t halo_;
  ConvCut cut_;
  GemmPlan whole_;
  GemmPlan last_;
  ScratchCarver carver_;
  std::int64_t* table_ = nullptr;
  std::size_t product_ = 0;
  char* product_scratch_ = nullptr;
  std::int64_t taps_floats_ = 0;
  float* taps_ = nullptr;
};

}  // namespace

std::size_t conv2d_forward_scratch(const Conv2dShape& shape, int threads) {
  check_conv2d(shape);
  return Forward(shape, threads).scratch_bytes();
}

void conv2d_forward(const Conv2dShape& shape, const float* x, const float* w, const float* bias,
                    GemmActivation activation, float* y, void* scratch, int threads) {
  check_conv2d(shape);
  Forward(shape, threads, scratch).run(x, w, bias, activation, y);
}

}  // namespace starling::kernels
