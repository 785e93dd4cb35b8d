#include "starling/nn/pool.h"

#include "starling/nn/layer_kinds.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings PoolOptions::settings() {
  return {setting("kernel", &PoolOptions::kernel, "size of the window", {.min = 1}),
          setting("stride", &PoolOptions::stride, "distance of windows; none: the kernel's size", {.min = 1}),
          setting("padding", &PoolOptions::padding, "around the image, at most half the kernel", {.min = 0}),
          setting("dilation", &PoolOptions::dilation, "distance of a window's elements", {.min = 1}),
          setting("ceil_mode", &PoolOptions::ceil_mode, "whether a last window that reaches out counts")};
}

Settings AvgPoolOptions::settings() {
  using O = AvgPoolOptions;
  return {setting("kernel", &O::kernel, "size of the window", {.min = 1}),
          setting("stride", &O::stride, "distance of windows; none: the kernel's size", {.min = 1}),
          setting("padding", &O::padding, "around the image, at most half the kernel", {.min = 0}),
          setting("ceil_mode", &O::ceil_mode, "whether a last window that reaches out counts"),
          setting("count_include_pad", &O::count_include_pad, "whether padding counts in the mean"),
          setting("divisor", &O::divisor, "what sums are divided by; 0: the number of elements", {.min = 0})};
}

Settings LpPoolOptions::settings() {
  return {setting("p", &LpPoolOptions::p, "the power", {.min = 1}),
          setting("kernel", &LpPoolOptions::kernel, "size of the window", {.min = 1}),
          setting("stride", &LpPoolOptions::stride, "distance of windows; none: the kernel's size", {.min = 1}),
          setting("ceil_mode", &LpPoolOptions::ceil_mode, "whether a last window that reaches out counts")};
}

Settings AdaptivePoolOptions::settings() {
  return {setting("size", &AdaptivePoolOptions::size, "of the result", {.min = 1})};
}

namespace {

template <class M, class Options>
void add_pool(LayerKinds& kinds, const char* name, const char* doc, int axes) {
  add_layer<Options>(kinds, name, doc, [name, axes](const Options& options, const TensorType& sample) {
    channels_of(name, sample, axes);
    return M(options);
  });
}

}  // namespace
}  // namespace nn

void register_layer_pool(nn::LayerKinds& kinds) {
  const char* max = "The largest element of every window.";
  nn::add_pool<nn::MaxPool1d, nn::PoolOptions>(kinds, "max_pool1d", max, 1);
  nn::add_pool<nn::MaxPool2d, nn::PoolOptions>(kinds, "max_pool2d", max, 2);
  nn::add_pool<nn::MaxPool3d, nn::PoolOptions>(kinds, "max_pool3d", max, 3);
  const char* avg = "The mean of every window.";
  nn::add_pool<nn::AvgPool1d, nn::AvgPoolOptions>(kinds, "avg_pool1d", avg, 1);
  nn::add_pool<nn::AvgPool2d, nn::AvgPoolOptions>(kinds, "avg_pool2d", avg, 2);
  nn::add_pool<nn::AvgPool3d, nn::AvgPoolOptions>(kinds, "avg_pool3d", avg, 3);
  const char* lp = "(Σ |x|ᵖ)^(1/p) of every window.";
  nn::add_pool<nn::LpPool1d, nn::LpPoolOptions>(kinds, "lp_pool1d", lp, 1);
  nn::add_pool<nn::LpPool2d, nn::LpPoolOptions>(kinds, "lp_pool2d", lp, 2);
  nn::add_pool<nn::LpPool3d, nn::LpPoolOptions>(kinds, "lp_pool3d", lp, 3);
  const char* adaptive_max = "The largest elements of even windows, as many as asked for.";
  nn::add_pool<nn::AdaptiveMaxPool1d, nn::AdaptivePoolOptions>(kinds, "adaptive_max_pool1d", adaptive_max, 1);
  nn::add_pool<nn::AdaptiveMaxPool2d, nn::AdaptivePoolOptions>(kinds, "adaptive_max_pool2d", adaptive_max, 2);
  nn::add_pool<nn::AdaptiveMaxPool3d, nn::AdaptivePoolOptions>(kinds, "adaptive_max_pool3d", adaptive_max, 3);
  const char* adaptive_avg = "The means of even windows, as many as asked for.";
  nn::add_pool<nn::AdaptiveAvgPool1d, nn::AdaptivePoolOptions>(kinds, "adaptive_avg_pool1d", adaptive_avg, 1);
  nn::add_pool<nn::AdaptiveAvgPool2d, nn::AdaptivePoolOptions>(kinds, "adaptive_avg_pool2d", adaptive_avg, 2);
  nn::add_pool<nn::AdaptiveAvgPool3d, nn::AdaptivePoolOptions>(kinds, "adaptive_avg_pool3d", adaptive_avg, 3);
  nn::add_plain_layer<nn::GlobalAvgPool>(kinds, "global_avg_pool", "The mean of every channel: [c, ...] to [c].");
  nn::add_plain_layer<nn::GlobalMaxPool>(kinds, "global_max_pool",
                                         "The largest element of every channel: [c, ...] to [c].");
}

}  // namespace starling
