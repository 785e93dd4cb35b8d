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
constexpr std::int64_t kBlockTiles = 64;                // forward: one panel of the product
constexpr std::int64_t kPanels = 4;                     // and so many of them where weights come from far away
constexpr std::int64_t kNearWeights = 16 * 1024;        // floats of a plane
constexpr std::int64_t kShareFloats = 2 * 1024 * 1024;  // weight: what a block of both operands' planes may take
constexpr std::int64_t kApartFloats = 512 * 1024;       // and where each thread has its own
constexpr std::int64_t kApartWeights = 256 * 256;

std::int64_t tiles_over(std::int64_t size) { return (size + 1) / 2; }

WinogradRange part(std::int64_t count, std::int64_t unit, int thread, int threads) {
  const std::int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * thread / threads * unit), std::min(count, units * (thread + 1) / threads * unit)};
}

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
    in_.tile_rows = out_.tile_rows = tiles_over(out_.height);
    in_.tile_cols = out_.tile_cols = tiles_over(out_.width);
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
      parallel_run(threads_, [&](int thread) { turn_weights(w, part(weights_out_, 1, thread, threads_)); });
      w = turned_;
    }
    parallel_run(threads_, [&](int thread) {
      winograd_weights(w, in_.channels, part(out_.channels, 1, thread, threads_), weights_, weights_in_ * weights_out_);
    });
    parallel_run(threads_, [&](int thread) {
      const WinogradRange mine = part(tiles_, 16, thread, threads_);
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

// Where the sums are small, each thread adds up its tiles apart. Where they are not, threads share the channels while
// planes are made and the planes while they are multiplied, so that each sum has one owner.
class WinogradWeight {
 public:
  WinogradWeight(const Conv2dShape& s, int threads, void* scratch = nullptr)
      : x_{s.in_channels, s.in_h, s.in_w, s.pad_h, s.pad_w},
        y_{s.out_channels, s.out_h(), s.out_w()},
        threads_(threads),
        apart_(s.in_channels * s.out_channels <= kApartWeights),
        sums_count_(kWinogradPlanes * s.in_channels * s.out_channels) {
    x_.tile_rows = y_.tile_rows = tiles_over(y_.height);
    x_.tile_cols = y_.tile_cols = tiles_over(y_.width);
    tiles_ = s.batch * x_.tile_rows * x_.tile_cols;
    const std::int64_t most = apart_ ? kApartFloats : kShareFloats;
    const std::int64_t fitting = most / (kWinogradPlanes * (x_.channels + y_.channels));
    block_ = std::min(whole_lanes(tiles_), std::clamp<std::int64_t>(fitting / 64 * 64, 128, 1024));
    pitch_ = block_ + kConvLanes;  // not a power of two: rows must not share cache sets
    product_bytes_ = static_cast<std::int64_t>(plan_tiles(block_).scratch_per_thread + 63) / 64 * 64;
    ScratchCarver carver(scratch);
    const std::int64_t teams = apart_ ? threads_ : 1;
    rows_count_ = whole_lanes(std::max(winograd_rows(x_), winograd_rows(y_)));
    rows_ = carver.take<float>(rows_count_ * threads_);
    x_count_ = kWinogradPlanes * x_.channels * pitch_;
    y_count_ = kWinogradPlanes * y_.channels * pitch_;
    x_planes_ = carver.take<float>(x_count_ * teams);
    y_planes_ = carver.take<float>(y_count_ * teams);
    sums_ = carver.take<float>(sums_count_ * teams);
    product_ = carver.take<char>(product_bytes_ * threads_);
    scratch_bytes_ = carver.used();
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const float* x, const float* dy, float* dw) const {
    if (apart_) {
      run_apart(x, dy);
    } else {
      run_shared(x, dy);
    }
    parallel_run(threads_, [&](int thread) {
      winograd_weights_back(sums_, x_.channels * y_.channels, x_.channels, part(y_.channels, 1, thread, threads_), dw);
    });
  }

 private:
  GemmPlan plan_tiles(std::int64_t tiles) const {
    return plan_gemm({.m = y_.channels, .n = x_.channels, .k = tiles, .trans_b = true, .lda = pitch_, .ldb = pitch_},
                     1);
  }
  WinogradPlanes x_planes(int team) const { return {x_planes_ + team * x_count_, x_.channels * pitch_, pitch_}; }
  WinogradPlanes y_planes(int team) const { return {y_planes_ + team * y_count_, y_.channels * pitch_, pitch_}; }

  void make_planes(int team, int thread, WinogradRange tiles, WinogradRange ins, WinogradRange outs, const float* x,
                   const float* dy) const {
    float* rows = rows_ + thread * rows_count_;
    winograd_input(x_, x, ins, tiles, x_planes(team), rows);
    winograd_gradient(y_, dy, outs, tiles, y_planes(team), rows);
  }
  void add_plane(int team, int thread, std::int64_t p, const GemmPlan& plan, bool accumulate) const {
    const WinogradPlanes xs = x_planes(team), ys = y_planes(team);
    gemm(plan, ys.at + p * ys.plane, xs.at + p * xs.plane, sums_ + team * sums_count_ + p * x_.channels * y_.channels,
         {.accumulate = accumulate}, product_ + thread * product_bytes_);
  }

  void run_apart(const float* x, const float* dy) const {
    parallel_run(threads_, [&](int thread) {
      const WinogradRange mine = part(tiles_, 16, thread, threads_);
      if (mine.begin == mine.end) std::fill_n(sums_ + thread * sums_count_, sums_count_, 0.0F);
      for (std::int64_t t = mine.begin; t < mine.end; t += block_) {
        const WinogradRange tiles{t, std::min(t + block_, mine.end)};
        make_planes(thread, thread, tiles, {0, x_.channels}, {0, y_.channels}, x, dy);
        const GemmPlan plan = plan_tiles(tiles.end - tiles.begin);
        for (std::int64_t p = 0; p < kWinogradPlanes; ++p) add_plane(thread, thread, p, plan, t > mine.begin);
      }
    });
    parallel_for(sums_count_, 64 * 1024, [&](std::int64_t begin, std::int64_t end) {
      for (int t = 1; t < threads_; ++t) {
        const float* more = sums_ + t * sums_count_;
        for (std::int64_t i = begin; i < end; ++i) sums_[i] += more[i];
      }
    });
  }

  void run_shared(const float* x, const float* dy) const {
    for (std::int64_t t = 0; t < tiles_; t += block_) {
      const WinogradRange tiles{t, std::min(t + block_, tiles_)};
      parallel_run(threads_, [&](int thread) {
        make_planes(0, thread, tiles, part(x_.channels, 1, thread, threads_), part(y_.channels, 1, thread, threads_), x,
                    dy);
      });
      const GemmPlan plan = plan_tiles(tiles.end - tiles.begin);
      share_tasks(kWinogradPlanes, threads_, [&](int thread, std::int64_t p) { add_plane(0, thread, p, plan, t > 0); });
    }
  }

  WinogradImages x_, y_;
  int threads_;
  bool apart_;
  std::int64_t sums_count_;
  std::int64_t tiles_ = 0, block_ = 0, pitch_ = 0;
  std::int64_t product_bytes_ = 0, rows_count_ = 0, x_count_ = 0, y_count_ = 0;
  float *rows_ = nullptr, *x_planes_ = nullptr, *y_planes_ = nullptr, *sums_ = nullptr;
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
  const auto wasteful = [](std::int64_t h, std::int64_t w) { return 8 * tiles_over(h) * tiles_over(w) > 3 * h * w; };
  if (wasteful(s.out_h(), s.out_w()) || wasteful(s.in_h, s.in_w)) return false;
  return s.batch * tiles_over(s.out_h()) * tiles_over(s.out_w()) >= kTilesPerThread * threads;
}

std::size_t winograd_forward_scratch(const Conv2dShape& shape, int threads) {
  return WinogradForward(shape, false, threads).scratch_bytes();
}
std::size_t winograd_backward_data_scratch(const Conv2dShape& shape, int threads) {
  return WinogradForward(shape, true, threads).scratch_bytes();
}
std::size_t winograd_backward_weight_scratch(const Conv2dShape& shape, int threads) {
  return WinogradWeight(shape, threads).scratch_bytes();
}

void winograd_forward(const Conv2dShape& shape, const float* x, const float* w, const float* bias, bool relu, float* y,
                      void* scratch, int threads) {
  WinogradForward(shape, false, threads, scratch).run(x, w, bias, relu, y);
}
void winograd_backward_data(const Conv2dShape& shape, const float* dy, const float* w, float* dx, void* scratch,
                            int threads) {
  WinogradForward(shape, true, threads, scratch).run(dy, w, nullptr, false, dx);
}
void winograd_backward_weight(const Conv2dShape& shape, const float* x, const float* dy, float* dw, void* scratch,
                              int threads) {
  WinogradWeight(shape, threads, scratch).run(x, dy, dw);
}

}  // namespace starling
