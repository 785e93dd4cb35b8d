#include "starling/nn/layer_kinds.h"
#include "starling/nn/normalize.h"
#include "starling/nn/setting_types.h"

namespace starling {
namespace nn {

Settings BatchNormOptions::settings() {
  using O = BatchNormOptions;
  return {
      setting("eps", &O::eps, "added to variances", {.min = 0}),
      setting("weight", &O::weight, "what every weight begins with"),
      setting("momentum", &O::momentum, "share of the newest batch in the running statistics", {.min = 0, .max = 1}),
      setting("global_statistics", &O::global_statistics, "of the whole batch, exchanged between ranks"),
      setting("affine", &O::affine, "whether there are a weight and a bias"),
      setting("running", &O::running, "whether statistics are kept for evaluation")};
}

Settings LayerNormOptions::settings() {
  using O = LayerNormOptions;
  return {setting("width", &O::width, "sizes of the last axes, normalised together; 0: the last one", {.min = 0}),
          setting("eps", &O::eps, "added to variances", {.min = 0}),
          setting("affine", &O::affine, "whether there are a weight and a bias"),
          setting("bias", &O::bias, "whether there is a bias")};
}

Settings RmsNormOptions::settings() {
  using O = RmsNormOptions;
  return {setting("width", &O::width, "sizes of the last axes, normalised together; 0: the last one", {.min = 0}),
          setting("eps", &O::eps, "added to mean squares", {.min = 0}),
          setting("affine", &O::affine, "whether there is a weight")};
}

Settings GroupNormOptions::settings() {
  return {setting("groups", &GroupNormOptions::groups, "divide the channels", {.min = 1}),
          setting("eps", &GroupNormOptions::eps, "added to variances", {.min = 0}),
          setting("affine", &GroupNormOptions::affine, "whether there are a weight and a bias")};
}

Settings InstanceNormOptions::settings() {
  return {setting("eps", &InstanceNormOptions::eps, "added to variances", {.min = 0}),
          setting("affine", &InstanceNormOptions::affine, "whether there are a weight and a bias")};
}

Settings LocalResponseNormOptions::settings() {
  using O = LocalResponseNormOptions;
  return {setting("size", &O::size, "channels of a window", {.min = 1}),
          setting("alpha", &O::alpha, "factor of the mean square"), setting("beta", &O::beta, "the power"),
          setting("k", &O::k, "added to it", {.min = 0})};
}

Settings LocalContrastNormOptions::settings() {
  using O = LocalContrastNormOptions;
  return {setting("size", &O::size, "of the window, odd", {.min = 1}),
          setting("sigma", &O::sigma, "standard deviation of the Gaussian in pixels", {.min = 0}),
          setting("eps", &O::eps, "added to variances", {.min = 0})};
}

namespace {

std::int64_t first_of(const char* name, const TensorType& sample) {
  check(sample.shape.rank() >= 1, "[{}] expected samples [c, ...], got {}", name, to_string(sample));
  return sample.shape[0];
}

template <class M>
void add_batch_norm(LayerKinds& kinds, const char* name) {
  add_layer<BatchNormOptions>(kinds, name, "Every channel normalised over the batch.",
                              [name](const BatchNormOptions& options, const TensorType& sample) {
                                BatchNormOptions o = options;
                                o.channels = first_of(name, sample);
                                return M(o);
                              });
}

template <class M, class Options>
void add_last_norm(LayerKinds& kinds, const char* name, const char* doc) {
  add_layer<Options>(kinds, name, doc, [name](const Options& options, const TensorType& sample) {
    Options o = options;
    if (o.width.values() == Shape{0}) o.width = width_of(name, sample);
    return M(o);
  });
}

template <class M, class Options>
void add_channel_norm(LayerKinds& kinds, const char* name, const char* doc) {
  add_layer<Options>(kinds, name, doc, [name](const Options& options, const TensorType& sample) {
    Options o = options;
    o.channels = first_of(name, sample);
    return M(o);
  });
}

}  // namespace
}  // namespace nn

void register_layer_norm(nn::LayerKinds& kinds) {
  nn::add_batch_norm<nn::BatchNorm1d>(kinds, "batch_norm1d");
  nn::add_batch_norm<nn::BatchNorm2d>(kinds, "batch_norm2d");
  nn::add_batch_norm<nn::BatchNorm3d>(kinds, "batch_norm3d");
  nn::add_last_norm<nn::LayerNorm, nn::LayerNormOptions>(kinds, "layer_norm", "The last axes normalised.");
  nn::add_last_norm<nn::RmsNorm, nn::RmsNormOptions>(kinds, "rms_norm",
                                                     "The last axes divided by their root mean square.");
  nn::add_channel_norm<nn::GroupNorm, nn::GroupNormOptions>(kinds, "group_norm",
                                                            "Groups of channels normalised in each sample.");
  nn::add_channel_norm<nn::InstanceNorm, nn::InstanceNormOptions>(kinds, "instance_norm",
                                                                  "Every channel normalised in each sample.");
  nn::add_layer<nn::LocalResponseNormOptions>(
      kinds, "local_response_norm", "Every element divided by what the channels around it make of it.",
      [](const nn::LocalResponseNormOptions& o, const TensorType&) { return nn::LocalResponseNorm(o); });
  nn::add_layer<nn::LocalContrastNormOptions>(
      kinds, "local_contrast_norm", "Images normalised by their surroundings, subtractively and divisively.",
      [](const nn::LocalContrastNormOptions& o, const TensorType&) { return nn::LocalContrastNorm(o); });
}

}  // namespace starling
