#include "starling/kernels/cpu/conv_winograd.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv_cut.h"
#include "starling/kernels/cpu/gemm.h"
#include "starling/kernels/cpu/winograd.h"

namespace starling {
namespace {

constexpr std::int64_t kLeastChannels = 32;
constexpr std::int64_t kMostWeights = 1024 * 1024;  // sixteen planes of them are scratch
constexpr std::int64_t kTilesPerThread = 32;
constexpr std::int64_t kBlockTiles = 64;          // forward: one panel of the product
constexpr std::int64_t kPanels = 4;               // and so many of them where weights come from far away
constexpr std::int64_t kNearWeights = 16 * 1024;  // floats of a plane

// The forward pass, and the backward pass as the forward pass of dy with the weights turned by 180 degrees: in the
// space of planes that exchanges the first and the last row, and the first and the last column.
class WinogradForward {
 public:
  WinogradForward(const Conv2dShape& s, bool backward, int threads, void* scratch = nullptr)
      : in_{backward ? s.out_channels : s.in_channels, backward ? s.out_h() : s.in_h, backward ? s.out_w() : s.in_w,
            backward ? 2 - s.pad_h : s.pad_h, backward ? 2 - s.pad_w : s.pad_w},
        out_{backward ? s.in_channels : s.out_channels, backward ? s.in_h : s.out_h(), backward ? s.in_w : s.out_w()},
        weights_in_(s.in_channels),
        weights_out_(s.out_channels),
        backward_(backward),
        threads_(threads) {
    in_.tile_rows = out_.tile_rows = winograd_tiles(out_.height);
    in_.tile_cols = out_.tile_cols = winograd_tiles(out_.width);
    tiles_ = s.batch * in_.tile_rows * in_.tile_cols;
    panels_ = weights_in_ * weights_out_ > kNearWeights ? kPanels : 1;
    std::size_t product = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      plans_[i] = plan_width((i + 1) * 16);
      product = std::max(product, plans_[i].scratch_per_thread);
    }
    product_bytes_ = static_cast<std::int64_t>(product + 63) / 64 * 64;
    ScratchCarver carver(scratch);
    weights_ = carver.take<float>(kWinogradPlanes * weights_in_ * weights_out_);
    turned_ = carver.take<float>(backward_ ? 9 * weights_in_ * weights_out_ : 0);
    rows_count_ = whole_lanes(winograd_rows(in_));
    rows_ = carver.take<float>(rows_count_ * threads_);
    in_count_ = kWinogradPlanes * in_.channels * kBlockTiles * panels_;
    out_count_ = kWinogradPlanes * out_.channels * kBlockTiles * panels_ + 16;
    in_planes_ = carver.take<float>(in_count_ * threads_);
    out_planes_ = carver.take<float>(out_count_ * threads_);
    product_ = carver.take<char>(product_bytes_ * threads_);
    scratch_bytes_ = carver.used();
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const float* x, const float* w, const float* bias, bool relu, float* y) const {
    if (backward_) {
      parallel_run(threads_, [&](int thread) { turn_weights(w, winograd_part(weights_out_, 1, thread, threads_)); });
      w = turned_;
    }
    parallel_run(threads_, [&](int thread) {
      winograd_weights(w, in_.channels, winograd_part(out_.channels, 1, thread, threads_), weights_,
                       weights_in_ * weights_out_);
    });
    parallel_run(threads_, [&](int thread) {
      const WinogradRange mine = winograd_part(tiles_, 16, thread, threads_);
      for (std::int64_t t = mine.begin; t < mine.end; t += kBlockTiles * panels_)
        run_block(thread, {t, std::min(t + kBlockTiles * panels_, mine.end)}, x, bias, relu, y);
    });
  }

 private:
  GemmPlan plan_width(std::int64_t width) const {
    return plan_gemm(
        {.m = out_.channels, .n = width, .k = in_.channels, .ldb = kBlockTiles, .ldc = kBlockTiles, .b_padded = true},
        1);
  }

  // [out, in, 3, 3] to [in, out, 3, 3].
  void turn_weights(const float* w, WinogradRange out) const {
    for (std::int64_t o = out.begin; o < out.end; ++o) {
      for (std::int64_t c = 0; c < weights_in_; ++c)
        std::copy_n(w + (o * weights_in_ + c) * 9, 9, turned_ + (c * weights_out_ + o) * 9);
    }
  }

  // Panel after panel within each plane, so that a plane of weights is read once for all of them.
  void run_block(int thread, WinogradRange tiles, const float* x, const float* bias, bool relu, float* y) const {
    const std::int64_t in_size = in_.channels * kBlockTiles, out_size = out_.channels * kBlockTiles;
    const WinogradPlanes in{in_planes_ + thread * in_count_, in_size * panels_, kBlockTiles};
    const WinogradPlanes out{out_planes_ + thread * out_count_, out_size * panels_, kBlockTiles};
    const auto each_panel = [&](const auto& body) {
      std::int64_t panel = 0;
      for (std::int64_t t = tiles.begin; t < tiles.end; t += kBlockTiles, ++panel)
        body(panel, WinogradRange{t, std::min(t + kBlockTiles, tiles.end)});
    };
    each_panel([&](std::int64_t panel, WinogradRange range) {
      winograd_input(in_, x, {0, in_.channels}, range, {in.at + panel * in_size, in.plane, in.ld},
                     rows_ + thread * rows_count_);
    });
    for (int p = 0; p < kWinogradPlanes; ++p) {
      each_panel([&](std::int64_t panel, WinogradRange range) {
        gemm(plans_[(range.end - range.begin - 1) / 16], weights_ + turned(p) * weights_in_ * weights_out_,
             in.at + p * in.plane + panel * in_size, out.at + p * out.plane + panel * out_size, {},
             product_ + thread * product_bytes_);
      });
    }
    each_panel([&](std::int64_t panel, WinogradRange range) {
      winograd_output(out_, {out.at + panel * out_size, out.plane, out.ld}, range, bias, relu, y);
    });
  }

  int turned(int p) const {
    constexpr int kTurn[] = {3, 1, 2, 0};
    return backward_ ? kTurn[p / 4] * 4 + kTurn[p % 4] : p;
  }

  WinogradImages in_, out_;
  std::int64_t weights_in_, weights_out_;
  bool backward_;
  int threads_;
  std::int64_t tiles_ = 0, panels_ = 1;
  GemmPlan plans_[4];
  std::int64_t product_bytes_ = 0, rows_count_ = 0, in_count_ = 0, out_count_ = 0;
  float *weights_ = nullptr, *turned_ = nullptr, *rows_ = nullptr, *in_planes_ = nullptr, *out_planes_ = nullptr;
  char* product_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

bool winograd_pays(const Conv2dShape& s, int threads) {
  if (s.kernel_h != 3 || s.kernel_w != 3 || s.stride_h != 1 || s.stride_w != 1 || s.dilation_h != 1 ||
      s.dilation_w != 1 || s.groups != 1 || s.pad_h > 2 || s.pad_w > 2)
    return false;
  if (std::min(s.in_channels, s.out_channels) < kLeastChannels || s.in_channels * s.out_channels > kMostWeights)
    return false;
  const auto wasteful = [](std::int64_t h, std::int64_t w) {
    return 8 * winograd_tiles(h) * winograd_tiles(w) > 3 * h * w;
  };
  if (wasteful(s.out_h(), s.out_w()) || wasteful(s.in_h, s.in_w)) return false;
  return s.batch * winograd_tiles(s.out_h()) * winograd_tiles(s.out_w()) >= kTilesPerThread * threads;
}

std::size_t winograd_forward_scratch(const Conv2dShape& shape, int threads) {
  return WinogradForward(shape, false, threads).scratch_bytes();
}
std::size_t winograd_backward_data_scratch(const Conv2dShape& shape, int threads) {
  return WinogradForward(shape, true, threads).scratch_bytes();
}

void winograd_forward(const Conv2dShape& shape, const float* x, const float* w, const float* bias, bool relu, float* y,
                      void* scratch, int threads) {
  WinogradForward(shape, false, threads, scratch).run(x, w, bias, relu, y);
}
void winograd_backward_data(const Conv2dShape& shape, const float* dy, const float* w, float* dx, void* scratch,
                            int threads) {
  WinogradForward(shape, true, threads, scratch).run(dy, w, nullptr, false, dx);
}

}  // namespace starling
