#include "starling/kernels/cpu/conv/conv_winograd.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"
#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/gemm/gemm.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kPanelTiles = 64;  // one panel of the product
constexpr std::int64_t kMostPanels = 4;   // panels processed together, so that a plane of weights is read once
constexpr std::int64_t kBlockFloats = 2 * 1024 * 1024;  // most floats of their planes

// Forward pass; the backward pass is the forward pass of dy with the weights rotated by 180 degrees.
class WinogradForward {
 public:
  WinogradForward(const Conv2dShape& s, WinogradScheme scheme, bool backward, int threads, void* scratch = nullptr)
      : scheme_(scheme),
        sizes_(winograd_sizes(scheme)),
        in_{backward ? s.out_channels : s.in_channels, backward ? s.out_h() : s.in_h, backward ? s.out_w() : s.in_w,
            backward ? sizes_.kernel - 1 - s.pad_h : s.pad_h, backward ? sizes_.kernel - 1 - s.pad_w : s.pad_w},
        out_{backward ? s.in_channels : s.out_channels, backward ? s.in_h : s.out_h(), backward ? s.in_w : s.out_w()},
        backward_(backward),
        threads_(threads) {
    in_.tile_rows = out_.tile_rows = sizes_.tiles(out_.height);
    in_.tile_cols = out_.tile_cols = sizes_.tiles(out_.width);
    tiles_ = s.batch * in_.tile_rows * in_.tile_cols;
    const std::int64_t panel = sizes_.planes() * (in_.channels + out_.channels) * kPanelTiles;
    panels_ = std::clamp<std::int64_t>(kBlockFloats / panel, 1, kMostPanels);
    std::size_t product = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      plans_[i] = plan_width((i + 1) * 16);
      product = std::max(product, plans_[i].scratch_per_thread);
    }
    product_bytes_ = round_up(static_cast<std::int64_t>(product));
    plane_ = in_.channels * out_.channels;
    // Plane stride that is not a multiple of a page: the planes of a tile must not share cache sets.
    in_plane_ = in_.channels * kPanelTiles * panels_ + kConvLanes;
    out_plane_ = out_.channels * kPanelTiles * panels_ + kConvLanes;
    ScratchCarver carver(scratch);
    weights_ = carver.take<float>(sizes_.planes() * plane_);
    moves_count_ = whole_lanes(std::max(winograd_memory(scheme, in_), winograd_memory(scheme, out_)));
    moves_ = carver.take<float>(moves_count_ * threads_);
    in_planes_ = carver.take<float>(sizes_.planes() * in_plane_ * threads_);
    out_planes_ = carver.take<float>(sizes_.planes() * out_plane_ * threads_ + kConvLanes);
    product_ = carver.take<char>(product_bytes_ * threads_);
    scratch_bytes_ = carver.used();
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const float* x, const float* w, const float* bias, bool relu, float* y) const {
    const std::int64_t taps = sizes_.kernel * sizes_.kernel;
    const WinogradWeights from{in_.channels, backward_ ? taps : in_.channels * taps,
                               backward_ ? out_.channels * taps : taps, backward_};
    parallel_run(threads_, [&](int thread) {
      winograd_weights(scheme_, w, from, winograd_part(out_.channels, 1, thread, threads_), weights_, plane_);
    });
    parallel_run(threads_, [&](int thread) {
      const WinogradRange mine = winograd_part(tiles_, 16, thread, threads_);
      for (std::int64_t t = mine.begin; t < mine.end; t += kPanelTiles * panels_)
        run_block(thread, {t, std::min(t + kPanelTiles * panels_, mine.end)}, x, bias, relu, y);
    });
  }

 private:
  GemmPlan plan_width(std::int64_t width) const {
    return plan_gemm(
        {.m = out_.channels, .n = width, .k = in_.channels, .ldb = kPanelTiles, .ldc = kPanelTiles, .b_padded = true},
        1);
  }

  // Processes panel after panel within each plane, so that a plane of weights is read once for all of them.
  void run_block(int thread, WinogradRange tiles, const float* x, const float* bias, bool relu, float* y) const {
    const std::int64_t in_panel = in_.channels * kPanelTiles, out_panel = out_.channels * kPanelTiles;
    const WinogradPlanes in{in_planes_ + thread * sizes_.planes() * in_plane_, in_plane_, kPanelTiles, kPanelTiles,
                            in_panel};
    const WinogradPlanes out{out_planes_ + thread * sizes_.planes() * out_plane_, out_plane_, kPanelTiles, kPanelTiles,
                             out_panel};
    float* moves = moves_ + thread * moves_count_;
    winograd_input(scheme_, in_, x, {0, in_.channels}, tiles, in, moves);
    const std::int64_t count = tiles.end - tiles.begin;
    for (std::int64_t p = 0; p < sizes_.planes(); ++p) {
      for (std::int64_t panel = 0; panel * kPanelTiles < count; ++panel) {
        const std::int64_t width = std::min(kPanelTiles, count - panel * kPanelTiles);
        gemm(plans_[(width - 1) / 16], weights_ + p * plane_, in.at + p * in.plane + panel * in_panel,
             out.at + p * out.plane + panel * out_panel, {}, product_ + thread * product_bytes_);
      }
    }
    winograd_output(scheme_, out_, out, tiles, bias, relu, y, moves);
  }

  WinogradScheme scheme_;
  WinogradSizes sizes_;
  WinogradImages in_, out_;
  bool backward_;
  int threads_;
  std::int64_t tiles_ = 0, panels_ = 1;
  GemmPlan plans_[4];
  std::int64_t product_bytes_ = 0, moves_count_ = 0, plane_ = 0, in_plane_ = 0, out_plane_ = 0;
  float *weights_ = nullptr, *moves_ = nullptr, *in_planes_ = nullptr, *out_planes_ = nullptr;
  char* product_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::size_t winograd_forward_scratch(const Conv2dShape& shape, WinogradScheme scheme, int threads) {
  return WinogradForward(shape, scheme, false, threads).scratch_bytes();
}
std::size_t winograd_backward_data_scratch(const Conv2dShape& shape, WinogradScheme scheme, int threads) {
  return WinogradForward(shape, scheme, true, threads).scratch_bytes();
}

void winograd_forward(const Conv2dShape& shape, WinogradScheme scheme, const float* x, const float* w,
                      const float* bias, bool relu, float* y, void* scratch, int threads) {
  WinogradForward(shape, scheme, false, threads, scratch).run(x, w, bias, relu, y);
}
void winograd_backward_data(const Conv2dShape& shape, WinogradScheme scheme, const float* dy, const float* w, float* dx,
                            void* scratch, int threads) {
  WinogradForward(shape, scheme, true, threads, scratch).run(dy, w, nullptr, false, dx);
}

}  // namespace starling::kernels
