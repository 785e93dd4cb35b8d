#include "starling/nn/conv.h"

#include "starling/nn/layer_kinds.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings ConvOptions::settings() {
  return {required(setting("out", &ConvOptions::out, "channels of the result", {.min = 1})),
          setting("kernel", &ConvOptions::kernel, "size of the window", {.min = 1}),
          setting("stride", &ConvOptions::stride, "distance of windows", {.min = 1}),
          setting("padding", &ConvOptions::padding, "zeros around the image", {.min = 0}),
          setting("dilation", &ConvOptions::dilation, "distance of a window's elements", {.min = 1}),
          setting("groups", &ConvOptions::groups, "blocks of channels that do not see each other", {.min = 1}),
          setting("bias", &ConvOptions::bias, "whether there is one"),
          setting("init", &ConvOptions::init, "how the weight begins"),
          setting("bias_init", &ConvOptions::bias_init, "how the bias begins")};
}

Settings ConvTransposeOptions::settings() {
  using O = ConvTransposeOptions;
  return {required(setting("out", &O::out, "channels of the result", {.min = 1})),
          setting("kernel", &O::kernel, "size of the window", {.min = 1}),
          setting("stride", &O::stride, "distance of windows in the result", {.min = 1}),
          setting("padding", &O::padding, "what is cut off around the result", {.min = 0}),
          setting("output_padding", &O::output_padding, "what is added behind the result", {.min = 0}),
          setting("dilation", &O::dilation, "distance of a window's elements", {.min = 1}),
          setting("groups", &O::groups, "blocks of channels that do not see each other", {.min = 1}),
          setting("bias", &O::bias, "whether there is one"),
          setting("init", &O::init, "how the weight begins"),
          setting("bias_init", &O::bias_init, "how the bias begins")};
}

Settings LocallyConnected2dOptions::settings() {
  using O = LocallyConnected2dOptions;
  return {required(setting("out", &O::out, "channels of the result", {.min = 1})),
          setting("kernel", &O::kernel, "size of the window", {.min = 1}),
          setting("stride", &O::stride, "distance of windows", {.min = 1}),
          setting("padding", &O::padding, "zeros around the image", {.min = 0}),
          setting("dilation", &O::dilation, "distance of a window's elements", {.min = 1}),
          setting("bias", &O::bias, "whether there is one, for every place"),
          setting("init", &O::init, "how the weight begins"),
          setting("bias_init", &O::bias_init, "how the bias begins")};
}

namespace {

template <class M, class Options>
void add_conv(LayerKinds& kinds, const char* name, const char* doc, int axes) {
  add_layer<Options>(kinds, name, doc, [name, axes](const Options& options, const TensorType& sample) {
    Options o = options;
    o.in = channels_of(name, sample, axes);
    return M(o);
  });
}

}  // namespace
}  // namespace nn

void register_layer_conv(nn::LayerKinds& kinds) {
  nn::add_conv<nn::Conv1d, nn::ConvOptions>(kinds, "conv1d", "Convolution of lines [c, l].", 1);
  nn::add_conv<nn::Conv2d, nn::ConvOptions>(kinds, "conv2d", "Convolution of images [c, h, w].", 2);
  nn::add_conv<nn::Conv3d, nn::ConvOptions>(kinds, "conv3d", "Convolution of volumes [c, d, h, w].", 3);
  const char* doc = "Transposed convolution: what a convolution gives back to its input.";
  nn::add_conv<nn::ConvTranspose1d, nn::ConvTransposeOptions>(kinds, "conv_transpose1d", doc, 1);
  nn::add_conv<nn::ConvTranspose2d, nn::ConvTransposeOptions>(kinds, "conv_transpose2d", doc, 2);
  nn::add_conv<nn::ConvTranspose3d, nn::ConvTransposeOptions>(kinds, "conv_transpose3d", doc, 3);
  nn::add_layer<nn::LocallyConnected2dOptions>(
      kinds, "locally_connected2d", "A convolution whose weights are not shared between places.",
      [](const nn::LocallyConnected2dOptions& options, const TensorType& sample) {
        nn::LocallyConnected2dOptions o = options;
        o.in = nn::channels_of("locally_connected2d", sample, 2);
        o.height = sample.shape[1];
        o.width = sample.shape[2];
        return nn::LocallyConnected2d(o);
      });
}

}  // namespace starling
