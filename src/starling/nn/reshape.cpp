#include "starling/nn/reshape.h"

#include "starling/base/error.h"
#include "starling/ops/api/interpolate.h"
#include "starling/ops/api/pad.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unfold.h"
#include "starling/ops/api/vision.h"

namespace starling::nn {
namespace {

Pair pair_of(const Shape& sizes) { return {sizes[0], sizes[1]}; }

void expect_images(const char* who, const Tensor& x) {
  if (x.rank() != 4) fail("[{}] expected images [n, c, h, w], got {}", who, to_string(x.type()));
}

}  // namespace

Tensor Flatten::forward(const Tensor& x) { return flatten(x, normalize_axis(from_, x.rank(), "Flatten")); }

Reshape::Reshape(const ReshapeOptions& o) : shape_(o.shape.values()) { shape_.insert(0, 0); }
Tensor Reshape::forward(const Tensor& x) {
  Shape shape = shape_;
  shape[0] = x.size(0);
  return reshape(x, shape);
}

Permute::Permute(const PermuteOptions& o) : order_{0} {
  for (const std::int64_t axis : o.order.values()) {
    check(axis >= 0, "[Permute] expected axes of a sample from 0 on, got {}", to_string(o.order.values()));
    order_.push_back(axis + 1);
  }
}
Tensor Permute::forward(const Tensor& x) {
  if (x.rank() != order_.rank())
    fail("[Permute] expected samples with {} axes, got {}", order_.rank() - 1, to_string(x.type()));
  return permute(x, order_);
}

Pad::Pad(const PadOptions& o) : options_(o) {}
Tensor Pad::forward(const Tensor& x) {
  if (x.rank() < 3) fail("[Pad] expected x [n, c, sizes..], got {}", to_string(x.type()));
  const int axes = x.rank() - 2;
  Shape before = options_.before.over(axes, "Pad", "before", 0), after = options_.after.over(axes, "Pad", "after", 0);
  for (Shape* sizes : {&before, &after}) {
    sizes->insert(0, 0);
    sizes->insert(0, 0);
  }
  static constexpr const char* kModes[] = {"constant", "reflect", "edge"};
  return pad(x, {before, after, Symbol(kModes[static_cast<int>(options_.mode)]), options_.value});
}

PixelShuffle::PixelShuffle(const ShuffleOptions& o) : factor_(o.factor) {
  check(o.factor > 0, "[PixelShuffle] expected a factor of at least 1, got {}", o.factor);
}
Tensor PixelShuffle::forward(const Tensor& x) {
  expect_images("PixelShuffle", x);
  const std::int64_t n = x.size(0), f = factor_, c = x.size(1) / (f * f), h = x.size(2), w = x.size(3);
  if (x.size(1) % (f * f) != 0)
    fail("[PixelShuffle] expected a multiple of {} channels, got {}", f * f, to_string(x.type()));
  return reshape(transpose(reshape(x, {n, c, f, f, h, w}), {0, 1, 4, 2, 5, 3}), {n, c, h * f, w * f});
}

PixelUnshuffle::PixelUnshuffle(const ShuffleOptions& o) : factor_(o.factor) {
  check(o.factor > 0, "[PixelUnshuffle] expected a factor of at least 1, got {}", o.factor);
}
Tensor PixelUnshuffle::forward(const Tensor& x) {
  expect_images("PixelUnshuffle", x);
  const std::int64_t n = x.size(0), f = factor_, c = x.size(1), h = x.size(2) / f, w = x.size(3) / f;
  if (!(x.size(2) % f == 0 && x.size(3) % f == 0))
    fail("[PixelUnshuffle] expected sizes that {} divides, got {}", f, to_string(x.type()));
  return reshape(transpose(reshape(x, {n, c, h, f, w, f}), {0, 1, 3, 5, 2, 4}), {n, c * f * f, h, w});
}

ChannelShuffle::ChannelShuffle(const ChannelShuffleOptions& o) : groups_(o.groups) {
  check(o.groups > 0, "[ChannelShuffle] expected at least 1 group, got {}", o.groups);
}
Tensor ChannelShuffle::forward(const Tensor& x) {
  if (!(x.rank() >= 2 && x.size(1) % groups_ == 0))
    fail("[ChannelShuffle] expected channels that {} divides, got {}", groups_, to_string(x.type()));
  const std::int64_t n = x.size(0), c = x.size(1);
  return reshape(transpose(reshape(x, {n, groups_, c / groups_, -1}), {0, 2, 1, 3}), x.shape());
}

Tensor Select::forward(const Tensor& x) {
  const int axis = normalize_axis(options_.axis, x.rank(), "Select");
  const std::int64_t index = options_.index < 0 ? options_.index + x.size(axis) : options_.index;
  return select(x, axis, index);
}

Tensor Narrow::forward(const Tensor& x) { return narrow(x, options_.axis, options_.begin, options_.size); }

Tensor Mean::forward(const Tensor& x) { return mean(x, {.axes = axes_}); }
Tensor Sum::forward(const Tensor& x) { return sum(x, {.axes = axes_}); }

Unfold::Unfold(const UnfoldOptions& o)
    : kernel_(o.kernel.over(2, "Unfold", "kernel", 1)),
      stride_(o.stride.over(2, "Unfold", "stride", 1)),
      padding_(o.padding.over(2, "Unfold", "padding", 0)),
      dilation_(o.dilation.over(2, "Unfold", "dilation", 1)) {}
Tensor Unfold::forward(const Tensor& x) {
  return unfold(x, {pair_of(kernel_), pair_of(stride_), pair_of(padding_), pair_of(dilation_)});
}

Fold::Fold(const FoldOptions& o)
    : size_(o.size.over(2, "Fold", "size", 1)),
      kernel_(o.kernel.over(2, "Fold", "kernel", 1)),
      stride_(o.stride.over(2, "Fold", "stride", 1)),
      padding_(o.padding.over(2, "Fold", "padding", 0)),
      dilation_(o.dilation.over(2, "Fold", "dilation", 1)) {}
Tensor Fold::forward(const Tensor& x) {
  return fold(x, {pair_of(size_), pair_of(kernel_), pair_of(stride_), pair_of(padding_), pair_of(dilation_)});
}

Upsample::Upsample(const UpsampleOptions& o) : options_(o) {
  check(!o.size.empty() || o.scale.size() == 1 || o.scale.size() == 2,
        "[Upsample] expected a scale of one number or two, got {}", o.scale.size());
  for (const double scale : o.scale) check(scale > 0, "[Upsample] expected a scale above 0, got {}", scale);
}
Tensor Upsample::forward(const Tensor& x) {
  op::InterpolateAttrs attrs{
      .mode = options_.mode == UpsampleOptions::Mode::nearest ? Symbol("nearest") : Symbol("bilinear"),
      .align_corners = options_.align_corners};
  if (options_.size.empty()) {
    attrs.scale_h = options_.scale.front();
    attrs.scale_w = options_.scale.back();
  } else {
    attrs.size = pair_of(options_.size.over(2, "Upsample", "size", 1));
  }
  return interpolate(x, attrs);
}

RoiAlign::RoiAlign(const RoiAlignOptions& o) : size_(o.size.over(2, "RoiAlign", "size", 1)), options_(o) {}
Tensor RoiAlign::forward(const Tensor& x) { return forward_list({&x, 1})[0]; }
TensorList RoiAlign::forward_list(std::span<const Tensor> xs) {
  check(xs.size() == 3, "[RoiAlign] expected feature maps, boxes and which sample each lies in, got {} inputs",
        xs.size());
  return {roi_align(xs[0], xs[1], xs[2],
                    {pair_of(size_), options_.spatial_scale, options_.sampling_ratio, options_.aligned})};
}

}  // namespace starling::nn
