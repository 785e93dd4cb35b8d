// Convolutions and pooling of LeNet and of a few larger layers: microseconds and GFLOP/s of each pass, on one thread
// and all.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv_im2col.h"
#include "starling/kernels/cpu/pool.h"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerLayer = 0.15;

struct alignas(64) Line {
  float values[16];
};

class Buffer {
 public:
  explicit Buffer(std::int64_t count) : lines_(static_cast<std::size_t>(count) / 16 + 2) {
    for (std::int64_t i = 0; i < count; ++i) data()[i] = static_cast<float>(i * 7919 % 1009) / 1009 - 0.5F;
  }
  float* data() { return lines_[0].values; }

 private:
  std::vector<Line> lines_;
};

template <class F>
double best_seconds(const F& f) {
  double best = 1e9;
  double total = 0;
  for (int i = 0; i < 3 || total < kSecondsPerLayer; ++i) {
    const auto start = Clock::now();
    f();
    const double now = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, now);
    total += now;
  }
  return best;
}

void conv(const std::string& name, const Conv2dShape& s, int threads) {
  Buffer x(s.batch * s.in_channels * s.in_h * s.in_w);
  Buffer y(s.batch * s.out_channels * s.positions());
  Buffer w(s.out_channels * s.taps());
  Buffer dw(s.out_channels * s.taps());
  Buffer bias(s.out_channels);
  Buffer dx(s.batch * s.in_channels * s.in_h * s.in_w);
  const auto bytes = std::max({conv2d_forward_scratch(s, threads), conv2d_backward_data_scratch(s, threads),
                               conv2d_backward_weight_scratch(s, threads)});
  Buffer scratch(static_cast<std::int64_t>(bytes / sizeof(float)));
  const double flops = 2e-9 * static_cast<double>(s.batch * s.out_channels * s.positions() * s.taps());
  const auto print = [&](const char* pass, double seconds) {
    fmt::print("{:<12} {:<8} threads {} {:>10.1f} us {:>8.1f} GFLOP/s\n", name, pass, threads, seconds * 1e6,
               flops / seconds);
  };
  print("forward", best_seconds([&] {
          conv2d_forward(s, x.data(), w.data(), bias.data(), GemmActivation::kNone, y.data(), scratch.data(), threads);
        }));
  print("data", best_seconds([&] { conv2d_backward_data(s, y.data(), w.data(), dx.data(), scratch.data(), threads); }));
  print("weight", best_seconds([&] {
          conv2d_backward_weight(s, x.data(), y.data(), dw.data(), bias.data(), false, scratch.data(), threads);
        }));
}

void pool(const std::string& name, const Shape& image, int threads) {
  const PoolWindows w = regular_windows(pool_geometry(image, MaxPoolAttrs{}, 2, "bench"));
  Buffer x(image.numel());
  Buffer y(w.planes * w.out_volume());
  Buffer dx(image.numel());
  std::vector<std::int32_t> index(static_cast<std::size_t>(w.planes * w.out_volume()));
  const PositionShape positions{w.planes, w.in_volume(), w.out_volume(), w.out[2]};
  const double values = best_seconds([&] { max_pool<float>(w, x.data(), y.data(), nullptr, threads); });
  const double forward = best_seconds([&] { max_pool(w, x.data(), y.data(), index.data(), threads); });
  const double backward =
      best_seconds([&] { max_pool_scatter<float>(positions, y.data(), index.data(), dx.data(), threads); });
  fmt::print("{:<12} max pool threads {} {:>10.1f} us values {:>8.1f} us with positions {:>8.1f} us backward\n", name,
             threads, values * 1e6, forward * 1e6, backward * 1e6);
}

}  // namespace

int main() {
  for (int threads : {1, num_threads()}) {
    const ThreadScope scope(threads);
    conv("lenet.conv1",
         {.batch = 64, .in_channels = 1, .in_h = 28, .in_w = 28, .out_channels = 20, .kernel_h = 5, .kernel_w = 5},
         threads);
    conv("lenet.conv2",
         {.batch = 64, .in_channels = 20, .in_h = 12, .in_w = 12, .out_channels = 50, .kernel_h = 5, .kernel_w = 5},
         threads);
    conv("3x3 64",
         {.batch = 8,
          .in_channels = 64,
          .in_h = 56,
          .in_w = 56,
          .out_channels = 64,
          .kernel_h = 3,
          .kernel_w = 3,
          .pad_h = 1,
          .pad_w = 1},
         threads);
    conv("1x1 256", {.batch = 8, .in_channels = 256, .in_h = 14, .in_w = 14, .out_channels = 256}, threads);
    pool("lenet.pool1", {64, 20, 24, 24}, threads);
    pool("lenet.pool2", {64, 50, 8, 8}, threads);
  }
}
