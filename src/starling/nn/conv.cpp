#include "starling/nn/conv.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/api/conv_transpose.h"
#include "starling/ops/api/local_conv.h"

namespace starling::nn {
namespace {

Pair pair_of(const Shape& sizes) { return {sizes[0], sizes[1]}; }

double bound_of(std::int64_t fan_in) { return 1 / std::sqrt(static_cast<double>(fan_in)); }

Shape with_kernel(std::int64_t first, std::int64_t second, const Shape& kernel) {
  Shape shape{first, second};
  for (const std::int64_t size : kernel) shape.push_back(size);
  return shape;
}

void check_channels(const char* who, std::int64_t in, std::int64_t out, std::int64_t groups) {
  check(in > 0 && out > 0 && groups > 0 && in % groups == 0 && out % groups == 0,
        "[{}] expected sizes of at least 1 and groups that divide in and out, got in {}, out {}, groups {}", who, in,
        out, groups);
}

void expect_input(const Module& layer, const Tensor& x, int axes, std::int64_t channels) {
  if (x.rank() == axes + 2 && x.size(1) == channels) return;
  fail("[{}] expected x [n, {}, {}], got {}", layer.kind(), channels,
       axes == 1   ? "l"
       : axes == 2 ? "h, w"
                   : "d, h, w",
       to_string(x.type()));
}

}  // namespace

Conv::Conv(int axes, const ConvOptions& o) : axes_(axes), groups_(o.groups) {
  check_channels("Conv", o.in, o.out, o.groups);
  const Shape kernel = o.kernel.over(axes, "Conv", "kernel", 1);
  stride_ = o.stride.over(axes, "Conv", "stride", 1);
  padding_ = o.padding.over(axes, "Conv", "padding", 0);
  dilation_ = o.dilation.over(axes, "Conv", "dilation", 1);
  const Shape shape = with_kernel(o.out, o.in / o.groups, kernel);
  const double bound = bound_of(o.in / o.groups * kernel.numel());
  const Init init = o.stddev > 0 ? Init::normal(o.stddev) : o.init;
  weight_ = &add_parameter("weight", initial(shape, init, bound));
  if (o.bias) bias_ = &add_parameter("bias", initial({o.out}, o.bias_init, bound));
}

Tensor Conv::forward(const Tensor& x) {
  expect_input(*this, x, axes_, weight_->size(1) * groups_);
  const Tensor bias = bias_ ? *bias_ : Tensor();
  if (axes_ == 1) {
    return conv1d(x, *weight_, bias,
                  {.stride = stride_[0], .padding = padding_[0], .dilation = dilation_[0], .groups = groups_});
  }
  if (axes_ == 3)
    return conv3d(x, *weight_, bias,
                  {.stride = stride_, .padding = padding_, .dilation = dilation_, .groups = groups_});
  return conv2d(
      x, *weight_, bias,
      {.stride = pair_of(stride_), .padding = pair_of(padding_), .dilation = pair_of(dilation_), .groups = groups_});
}

ConvTranspose::ConvTranspose(int axes, const ConvTransposeOptions& o) : axes_(axes), groups_(o.groups) {
  check_channels("ConvTranspose", o.in, o.out, o.groups);
  const Shape kernel = o.kernel.over(axes, "ConvTranspose", "kernel", 1);
  stride_ = o.stride.over(axes, "ConvTranspose", "stride", 1);
  padding_ = o.padding.over(axes, "ConvTranspose", "padding", 0);
  output_padding_ = o.output_padding.over(axes, "ConvTranspose", "output_padding", 0);
  dilation_ = o.dilation.over(axes, "ConvTranspose", "dilation", 1);
  const double bound = bound_of(o.out / o.groups * kernel.numel());
  weight_ = &add_parameter("weight", initial(with_kernel(o.in, o.out / o.groups, kernel), o.init, bound));
  if (o.bias) bias_ = &add_parameter("bias", initial({o.out}, o.bias_init, bound));
}

Tensor ConvTranspose::forward(const Tensor& x) {
  expect_input(*this, x, axes_, weight_->size(0));
  const Tensor bias = bias_ ? *bias_ : Tensor();
  if (axes_ == 1) {
    return conv_transpose1d(x, *weight_, bias,
                            {.stride = stride_[0],
                             .padding = padding_[0],
                             .output_padding = output_padding_[0],
                             .dilation = dilation_[0],
                             .groups = groups_});
  }
  if (axes_ == 3) {
    return conv_transpose3d(x, *weight_, bias,
                            {.stride = stride_,
                             .padding = padding_,
                             .output_padding = output_padding_,
                             .dilation = dilation_,
                             .groups = groups_});
  }
  return conv_transpose2d(x, *weight_, bias,
                          {.stride = pair_of(stride_),
                           .padding = pair_of(padding_),
                           .output_padding = pair_of(output_padding_),
                           .dilation = pair_of(dilation_),
                           .groups = groups_});
}

LocallyConnected2d::LocallyConnected2d(const LocallyConnected2dOptions& o) : sample_{o.in, o.height, o.width} {
  const char* who = "LocallyConnected2d";
  check(o.in > 0 && o.out > 0 && o.height > 0 && o.width > 0,
        "[{}] expected sizes of at least 1, got in {}, out {}, height {} and width {}", who, o.in, o.out, o.height,
        o.width);
  kernel_ = o.kernel.over(2, who, "kernel", 1);
  stride_ = o.stride.over(2, who, "stride", 1);
  padding_ = o.padding.over(2, who, "padding", 0);
  dilation_ = o.dilation.over(2, who, "dilation", 1);
  const std::int64_t rows = op::window_count(o.height, kernel_[0], stride_[0], padding_[0], dilation_[0], who);
  const std::int64_t columns = op::window_count(o.width, kernel_[1], stride_[1], padding_[1], dilation_[1], who);
  const std::int64_t window = o.in * kernel_.numel();
  weight_ = &add_parameter("weight", initial({rows * columns, o.out, window}, o.init, bound_of(window)));
  if (o.bias) bias_ = &add_parameter("bias", initial({o.out, rows, columns}, o.bias_init, bound_of(window)));
}

Tensor LocallyConnected2d::forward(const Tensor& x) {
  if (x.rank() != 4 || x.size(1) != sample_[0] || x.size(2) != sample_[1] || x.size(3) != sample_[2])
    fail("[LocallyConnected2d] expected x [n, {}, {}, {}], got {}", sample_[0], sample_[1], sample_[2],
         to_string(x.type()));
  return local_conv2d(x, *weight_, bias_ ? *bias_ : Tensor(),
                      {.kernel = pair_of(kernel_),
                       .stride = pair_of(stride_),
                       .padding = pair_of(padding_),
                       .dilation = pair_of(dilation_)});
}

}  // namespace starling::nn
