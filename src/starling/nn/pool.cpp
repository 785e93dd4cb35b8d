#include "starling/nn/pool.h"

#include "starling/base/error.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/api/reduce.h"

namespace starling::nn {
namespace {

Shape stride_of(const Sizes& stride, int axes, const char* who) {
  return stride.empty() ? Shape{} : stride.over(axes, who, "stride", 1);
}

// All axes but samples and channels.
Shape places(const Tensor& x, const char* who) {
  if (x.rank() < 3) fail("[{}] expected x [n, c, ...] with places to look at, got {}", who, to_string(x.type()));
  Shape axes;
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  return axes;
}

}  // namespace

MaxPool::MaxPool(int axes, const PoolOptions& o)
    : axes_(axes),
      kernel_(o.kernel.over(axes, "MaxPool", "kernel", 1)),
      stride_(stride_of(o.stride, axes, "MaxPool")),
      padding_(o.padding.over(axes, "MaxPool", "padding", 0)),
      dilation_(o.dilation.over(axes, "MaxPool", "dilation", 1)),
      ceil_mode_(o.ceil_mode) {}

Tensor MaxPool::forward(const Tensor& x) {
  const op::MaxPoolAttrs attrs{kernel_, stride_, padding_, dilation_, ceil_mode_};
  return axes_ == 1 ? max_pool1d(x, attrs) : axes_ == 2 ? max_pool2d(x, attrs) : max_pool3d(x, attrs);
}

AvgPool::AvgPool(int axes, const AvgPoolOptions& o)
    : axes_(axes),
      kernel_(o.kernel.over(axes, "AvgPool", "kernel", 1)),
      stride_(stride_of(o.stride, axes, "AvgPool")),
      padding_(o.padding.over(axes, "AvgPool", "padding", 0)),
      options_(o) {}

Tensor AvgPool::forward(const Tensor& x) {
  const op::AvgPoolAttrs attrs{.kernel = kernel_,
                               .stride = stride_,
                               .padding = padding_,
                               .ceil_mode = options_.ceil_mode,
                               .count_include_pad = options_.count_include_pad,
                               .divisor = options_.divisor};
  return axes_ == 1 ? avg_pool1d(x, attrs) : axes_ == 2 ? avg_pool2d(x, attrs) : avg_pool3d(x, attrs);
}

LpPool::LpPool(int axes, const LpPoolOptions& o)
    : axes_(axes),
      p_(o.p),
      kernel_(o.kernel.over(axes, "LpPool", "kernel", 1)),
      stride_(stride_of(o.stride, axes, "LpPool")),
      ceil_mode_(o.ceil_mode) {
  check(o.p >= 1, "[LpPool] expected p of at least 1, got {}", o.p);
}

Tensor LpPool::forward(const Tensor& x) {
  const op::LpPoolAttrs attrs{p_, kernel_, stride_, ceil_mode_};
  return axes_ == 1 ? lp_pool1d(x, attrs) : axes_ == 2 ? lp_pool2d(x, attrs) : lp_pool3d(x, attrs);
}

AdaptivePool::AdaptivePool(int axes, bool max, const AdaptivePoolOptions& o)
    : axes_(axes), max_(max), size_(o.size.over(axes, "AdaptivePool", "size", 1)) {}

Tensor AdaptivePool::forward(const Tensor& x) {
  const op::AdaptivePoolAttrs attrs{size_};
  if (axes_ == 1) return max_ ? adaptive_max_pool1d(x, attrs) : adaptive_avg_pool1d(x, attrs);
  if (axes_ == 2) return max_ ? adaptive_max_pool2d(x, attrs) : adaptive_avg_pool2d(x, attrs);
  return max_ ? adaptive_max_pool3d(x, attrs) : adaptive_avg_pool3d(x, attrs);
}

Tensor GlobalAvgPool::forward(const Tensor& x) { return mean(x, {.axes = places(x, "GlobalAvgPool")}); }
Tensor GlobalMaxPool::forward(const Tensor& x) { return max(x, {.axes = places(x, "GlobalMaxPool")}); }

}  // namespace starling::nn
