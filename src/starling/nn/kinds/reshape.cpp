#include "starling/nn/reshape.h"

#include "starling/nn/layer_kinds.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings FlattenOptions::settings() {
  return {setting("from", &FlattenOptions::from, "the first axis of those that become one, the batch being 0")};
}
Settings ReshapeOptions::settings() {
  return {required(setting("shape", &ReshapeOptions::shape, "of samples; one size may be -1", {.min = -1}))};
}
Settings PermuteOptions::settings() {
  return {required(setting("order", &PermuteOptions::order, "axes of samples, counted from 0", {.min = 0}))};
}
Settings PadOptions::settings() {
  return {setting("before", &PadOptions::before, "elements in front of each spatial axis", {.min = 0}),
          setting("after", &PadOptions::after, "elements behind each spatial axis", {.min = 0}),
          choice("mode", &PadOptions::mode, {"constant", "reflect", "edge"}, "what they are"),
          setting("value", &PadOptions::value, "of constant ones")};
}
Settings ShuffleOptions::settings() {
  return {setting("factor", &ShuffleOptions::factor, "of height and width", {.min = 1})};
}
Settings ChannelShuffleOptions::settings() {
  return {setting("groups", &ChannelShuffleOptions::groups, "divide the channels", {.min = 1})};
}
Settings SelectOptions::settings() {
  return {setting("axis", &SelectOptions::axis, "the batch being 0"),
          setting("index", &SelectOptions::index, "negative: from the end")};
}
Settings NarrowOptions::settings() {
  return {setting("axis", &NarrowOptions::axis, "the batch being 0"),
          setting("begin", &NarrowOptions::begin, "the first element", {.min = 0}),
          setting("size", &NarrowOptions::size, "how many", {.min = 1})};
}
Settings ReduceOptions::settings() { return {setting("axes", &ReduceOptions::axes, "the batch being 0")}; }
Settings UnfoldOptions::settings() {
  return {setting("kernel", &UnfoldOptions::kernel, "size of the window", {.min = 1}),
          setting("stride", &UnfoldOptions::stride, "distance of windows", {.min = 1}),
          setting("padding", &UnfoldOptions::padding, "zeros around the image", {.min = 0}),
          setting("dilation", &UnfoldOptions::dilation, "distance of a window's elements", {.min = 1})};
}
Settings FoldOptions::settings() {
  return {required(setting("size", &FoldOptions::size, "height and width of the result", {.min = 1})),
          setting("kernel", &FoldOptions::kernel, "size of the window", {.min = 1}),
          setting("stride", &FoldOptions::stride, "distance of windows", {.min = 1}),
          setting("padding", &FoldOptions::padding, "zeros around the image", {.min = 0}),
          setting("dilation", &FoldOptions::dilation, "distance of a window's elements", {.min = 1})};
}
Settings UpsampleOptions::settings() {
  return {setting("scale", &UpsampleOptions::scale, "of height and width: one number or two", {.min = 0}),
          setting("size", &UpsampleOptions::size, "of the result, instead of a scale", {.min = 1}),
          choice("mode", &UpsampleOptions::mode, {"nearest", "bilinear"}, "how pixels between are made"),
          setting("align_corners", &UpsampleOptions::align_corners, "whether corner pixels lie on each other")};
}
Settings RoiAlignOptions::settings() {
  return {
      setting("size", &RoiAlignOptions::size, "height and width of a region in the result", {.min = 1}),
      setting("spatial_scale", &RoiAlignOptions::spatial_scale, "from boxes to pixels", {.min = 0}),
      setting("sampling_ratio", &RoiAlignOptions::sampling_ratio, "points of a bin; 0: as many as pixels", {.min = 0}),
      setting("aligned", &RoiAlignOptions::aligned, "whether boxes lie half a pixel further to the left and top")};
}

namespace {

template <class M, class Options>
void add_with(LayerKinds& kinds, const char* name, const char* doc) {
  add_layer<Options>(kinds, name, doc, [](const Options& options, const TensorType&) { return M(options); });
}

}  // namespace
}  // namespace nn

// No layer kind for roi_align: its boxes are not samples of a batch.
void register_layer_reshape(nn::LayerKinds& kinds) {
  nn::add_plain_layer<nn::Identity>(kinds, "identity", "What it is given.");
  nn::add_with<nn::Flatten, nn::FlattenOptions>(kinds, "flatten", "All axes but the batch into one.");
  nn::add_with<nn::Reshape, nn::ReshapeOptions>(kinds, "reshape", "Samples in another shape.");
  nn::add_with<nn::Permute, nn::PermuteOptions>(kinds, "permute", "The axes of samples in another order.");
  nn::add_with<nn::Pad, nn::PadOptions>(kinds, "pad", "More elements around the spatial axes.");
  nn::add_with<nn::PixelShuffle, nn::ShuffleOptions>(kinds, "pixel_shuffle", "[c · f², h, w] to [c, h · f, w · f].");
  nn::add_with<nn::PixelUnshuffle, nn::ShuffleOptions>(kinds, "pixel_unshuffle",
                                                       "[c, h · f, w · f] to [c · f², h, w].");
  nn::add_with<nn::ChannelShuffle, nn::ChannelShuffleOptions>(kinds, "channel_shuffle",
                                                              "Channels dealt out between groups.");
  nn::add_with<nn::Select, nn::SelectOptions>(kinds, "select", "One place of an axis, which is gone then.");
  nn::add_with<nn::Narrow, nn::NarrowOptions>(kinds, "narrow", "A piece of an axis.");
  nn::add_with<nn::Mean, nn::ReduceOptions>(kinds, "mean", "Means over axes, which are gone then.");
  nn::add_with<nn::Sum, nn::ReduceOptions>(kinds, "sum", "Sums over axes, which are gone then.");
  nn::add_with<nn::Unfold, nn::UnfoldOptions>(kinds, "unfold", "Every window as a column.");
  nn::add_with<nn::Fold, nn::FoldOptions>(kinds, "fold", "Columns added up where their windows lie.");
  nn::add_with<nn::Upsample, nn::UpsampleOptions>(kinds, "upsample", "Images in another size.");
}

}  // namespace starling
