#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/base/round_up.h"
#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/conv/conv_winograd.h"
#include "starling/kernels/cpu/conv/winograd.h"
#include "starling/kernels/cpu/gemm/gemm.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kShareFloats = 2 * 1024 * 1024;  // most floats of a block of both operands' planes
constexpr std::int64_t kApartFloats = 512 * 1024;       // same, if each thread has its own planes
constexpr std::int64_t kApartWeights = 16 * 256 * 256;

// Weight gradient. If the sums are small, each thread sums its tiles separately. Otherwise threads share the channels
// in the transforms and the planes in the products, so that each sum has one owner.
class WinogradWeight {
 public:
  WinogradWeight(const Conv2dShape& s, WinogradScheme scheme, int threads, void* scratch = nullptr)
      : scheme_(scheme),
        sizes_(winograd_sizes(scheme)),
        x_{s.in_channels, s.in_h, s.in_w, s.pad_h, s.pad_w},
        y_{s.out_channels, s.out_h(), s.out_w()},
        threads_(threads),
        sums_count_(sizes_.planes() * s.in_channels * s.out_channels),
        apart_(sums_count_ <= kApartWeights) {
    x_.tile_rows = y_.tile_rows = sizes_.tiles(y_.height);
    x_.tile_cols = y_.tile_cols = sizes_.tiles(y_.width);
    tiles_ = s.batch * x_.tile_rows * x_.tile_cols;
    const std::int64_t most = apart_ ? kApartFloats : kShareFloats;
    const std::int64_t fitting = most / (sizes_.planes() * (x_.channels + y_.channels));
    block_ = std::min(whole_lanes(tiles_), std::clamp<std::int64_t>(fitting / 64 * 64, 128, 1024));
    pitch_ = block_ + kConvLanes;  // not a power of two: rows must not share cache sets
    product_bytes_ = round_up(static_cast<std::int64_t>(plan_tiles(block_).scratch_per_thread));
    ScratchCarver carver(scratch);
    const std::int64_t teams = apart_ ? threads_ : 1;
    moves_count_ = whole_lanes(std::max(winograd_memory(scheme, x_), winograd_memory(scheme, y_)));
    moves_ = carver.take<float>(moves_count_ * threads_);
    x_count_ = sizes_.planes() * (x_.channels * pitch_ + kConvLanes);
    y_count_ = sizes_.planes() * (y_.channels * pitch_ + kConvLanes);
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
      winograd_weights_back(scheme_, sums_, x_.channels * y_.channels, x_.channels,
                            winograd_part(y_.channels, 1, thread, threads_), dw);
    });
  }

 private:
  GemmPlan plan_tiles(std::int64_t tiles) const {
    return plan_gemm({.m = y_.channels, .n = x_.channels, .k = tiles, .trans_b = true, .lda = pitch_, .ldb = pitch_},
                     1);
  }
  WinogradPlanes x_planes(int team) const {
    return {x_planes_ + team * x_count_, x_.channels * pitch_ + kConvLanes, pitch_, block_, 0};
  }
  WinogradPlanes y_planes(int team) const {
    return {y_planes_ + team * y_count_, y_.channels * pitch_ + kConvLanes, pitch_, block_, 0};
  }

  void make_planes(int team, int thread, WinogradRange tiles, WinogradRange ins, WinogradRange outs, const float* x,
                   const float* dy) const {
    float* moves = moves_ + thread * moves_count_;
    winograd_input(scheme_, x_, x, ins, tiles, x_planes(team), moves);
    winograd_gradient(scheme_, y_, dy, outs, tiles, y_planes(team), moves);
  }
  void add_plane(int team, int thread, std::int64_t p, const GemmPlan& plan, bool accumulate) const {
    const WinogradPlanes xs = x_planes(team), ys = y_planes(team);
    gemm(plan, ys.at + p * ys.plane, xs.at + p * xs.plane, sums_ + team * sums_count_ + p * x_.channels * y_.channels,
         {.accumulate = accumulate}, product_ + thread * product_bytes_);
  }

  void run_apart(const float* x, const float* dy) const {
    parallel_run(threads_, [&](int thread) {
      const WinogradRange mine = winograd_part(tiles_, 16, thread, threads_);
      if (mine.begin == mine.end) std::fill_n(sums_ + thread * sums_count_, sums_count_, 0.0F);
      for (std::int64_t t = mine.begin; t < mine.end; t += block_) {
        const WinogradRange tiles{t, std::min(t + block_, mine.end)};
        make_planes(thread, thread, tiles, {0, x_.channels}, {0, y_.channels}, x, dy);
        const GemmPlan plan = plan_tiles(tiles.end - tiles.begin);
        for (std::int64_t p = 0; p < sizes_.planes(); ++p) add_plane(thread, thread, p, plan, t > mine.begin);
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
        make_planes(0, thread, tiles, winograd_part(x_.channels, 1, thread, threads_),
                    winograd_part(y_.channels, 1, thread, threads_), x, dy);
      });
      const GemmPlan plan = plan_tiles(tiles.end - tiles.begin);
      share_tasks(sizes_.planes(), threads_, [&](int thread, std::int64_t p) { add_plane(0, thread, p, plan, t > 0); });
    }
  }

  WinogradScheme scheme_;
  WinogradSizes sizes_;
  WinogradImages x_, y_;
  int threads_;
  std::int64_t sums_count_;
  bool apart_;
  std::int64_t tiles_ = 0, block_ = 0, pitch_ = 0;
  std::int64_t product_bytes_ = 0, moves_count_ = 0, x_count_ = 0, y_count_ = 0;
  float *moves_ = nullptr, *x_planes_ = nullptr, *y_planes_ = nullptr, *sums_ = nullptr;
  char* product_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::size_t winograd_backward_weight_scratch(const Conv2dShape& shape, WinogradScheme scheme, int threads) {
  return WinogradWeight(shape, scheme, threads).scratch_bytes();
}

void winograd_backward_weight(const Conv2dShape& shape, WinogradScheme scheme, const float* x, const float* dy,
                              float* dw, void* scratch, int threads) {
  WinogradWeight(shape, scheme, threads, scratch).run(x, dy, dw);
}

}  // namespace starling::kernels
