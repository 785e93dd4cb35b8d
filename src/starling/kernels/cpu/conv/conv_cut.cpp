#include "starling/kernels/cpu/conv/conv_cut.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kTapsInCache = 96 * 1024;     // floats of one band's taps, which share L2 with the weights
constexpr std::int64_t kWorkPerThread = 128 * 1024;  // multiply-adds that pay for one more thread

}  // namespace

void check_conv2d(const Conv2dShape& s) {
  check(s.groups >= 1 && s.in_channels % s.groups == 0 && s.out_channels % s.groups == 0,
        "[conv2d] expected channels divisible by {} groups, got {} in and {} out", s.groups, s.in_channels,
        s.out_channels);
  check(s.kernel_h >= 1 && s.kernel_w >= 1 && s.stride_h >= 1 && s.stride_w >= 1 && s.dilation_h >= 1 &&
            s.dilation_w >= 1 && s.pad_h >= 0 && s.pad_w >= 0,
        "[conv2d] expected positive kernel, stride and dilation and no negative padding, got kernel {}x{}", s.kernel_h,
        s.kernel_w);
  check(s.batch >= 0 && s.in_h + 2 * s.pad_h >= s.dilation_h * (s.kernel_h - 1) + 1 &&
            s.in_w + 2 * s.pad_w >= s.dilation_w * (s.kernel_w - 1) + 1,
        "[conv2d] expected a padded image of at least the kernel's size, got {}x{} for {}x{}", s.in_h, s.in_w,
        s.kernel_h, s.kernel_w);
}

Conv2dShape planes_of(const Conv2dShape& shape) {
  Conv2dShape planes = shape;
  if (!shares_rows(shape)) return planes;
  planes.kernel_h = 1;
  planes.dilation_h = 1;
  return planes;
}

RowRange ConvCut::band(const Conv2dShape& s, std::int64_t index) const {
  return {index * band_rows, std::min(s.out_h(), (index + 1) * band_rows)};
}

std::int64_t ConvCut::band_positions(const Conv2dShape& s, std::int64_t index) const {
  const RowRange rows = band(s, index);
  return (rows.end - rows.begin) * s.out_w();
}

ConvCut cut_conv2d(const Conv2dShape& s, std::int64_t row_floats, std::int64_t halo, int threads, bool share_bands) {
  ConvCut cut;
  cut.halo = halo;
  const std::int64_t fitting = kTapsInCache / std::max<std::int64_t>(1, row_floats) - halo;
  const std::int64_t most = std::clamp<std::int64_t>(fitting, 1, s.out_h());
  cut.band_rows = (s.out_h() + (s.out_h() + most - 1) / most - 1) / ((s.out_h() + most - 1) / most);  // even bands
  cut.bands = (s.out_h() + cut.band_rows - 1) / cut.band_rows;
  const std::int64_t work = s.batch * s.out_channels * s.positions() * s.taps();
  const std::int64_t tasks = s.batch * (share_bands ? cut.bands : 1);
  const std::int64_t useful = std::max<std::int64_t>(1, std::min(tasks, work / kWorkPerThread));
  cut.threads = static_cast<int>(std::min<std::int64_t>(threads, useful));
  return cut;
}

void fill_tap_table(const Conv2dShape& s, std::int64_t ld, std::int64_t* table) {
  const bool shared = shares_rows(s);
  const std::int64_t row_step = s.dilation_h * s.out_w();
  for (std::int64_t c = 0; c < s.group_in(); ++c) {
    for (std::int64_t kh = 0; kh < s.kernel_h; ++kh) {
      for (std::int64_t kw = 0; kw < s.kernel_w; ++kw) {
        const std::int64_t tap = (c * s.kernel_h + kh) * s.kernel_w + kw;
        table[tap] = shared ? (c * s.kernel_w + kw) * ld + kh * row_step : tap * ld;
      }
    }
  }
}

}  // namespace starling::kernels
