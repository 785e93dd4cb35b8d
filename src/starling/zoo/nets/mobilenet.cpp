#include "starling/zoo/nets/mobilenet.h"

#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/nn/residual.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/zoo/conv_norm.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

using nn::Sequential;
using zoo::Activation;

// The nearest multiple of 8, at least 8 and not below nine tenths of what was asked for.
std::int64_t round_channels(double wanted) {
  const std::int64_t nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(wanted + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * wanted ? nearest + 8 : nearest;
}

// Squeeze-and-excitation: scales each channel by a gate computed from the global average of all channels.
class SqueezeExcite : public nn::Module {
 public:
  SqueezeExcite(std::int64_t channels, std::int64_t squeezed)
      : squeeze_(add_module("squeeze", conv(channels, squeezed))),
        excite_(add_module("excite", conv(squeezed, channels))) {}

 protected:
  Tensor forward(const Tensor& x) override {
    const Tensor whole = mean(x, {.axes = {2, 3}, .keepdim = true});
    return mul(x, sigmoid((*excite_)(silu((*squeeze_)(whole)))));
  }

 private:
  static std::shared_ptr<nn::Module> conv(std::int64_t in, std::int64_t out) {
    return std::make_shared<nn::Conv2d>(nn::Conv2dOptions{.in = in, .out = out, .kernel = 1});
  }
  std::shared_ptr<nn::Module> squeeze_;
  std::shared_ptr<nn::Module> excite_;
};

// Zeroes whole samples with probability p while training and scales the rest by 1 / (1 - p): after the body of a
// residual block, such a sample skips the block.
class StochasticDepth : public nn::Module {
 public:
  explicit StochasticDepth(double p) : p_(p) {}

 protected:
  Tensor forward(const Tensor& x) override {
    if (!training() || p_ == 0) return x;
    Shape mask(x.shape());
    for (int d = 1; d < x.rank(); ++d) mask[d] = 1;
    return mul(x, bernoulli(mask, 1 - p_, x.dtype()) / (1 - p_));
  }

 private:
  double p_;
};

struct Block {
  std::int64_t in = 0, out = 0;
  std::int64_t expand = 6;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  Activation activation = Activation::relu6;
  bool squeeze = false;
  double skip = 0;  // probability of stochastic depth
};

// Inverted residual block: a wide depthwise convolution between narrow ends, with a residual connection where shapes
// match.
void add_inverted(Sequential& net, const std::string& name, const Block& b) {
  Sequential body;
  const std::int64_t wide = b.in * b.expand;
  if (b.expand != 1) zoo::add_conv_norm(body, "1", {.in = b.in, .out = wide, .kernel = 1, .activation = b.activation});
  zoo::add_conv_norm(
      body, "2",
      {.in = wide, .out = wide, .kernel = b.kernel, .stride = b.stride, .groups = wide, .activation = b.activation});
  if (b.squeeze) body.add("squeeze", SqueezeExcite(wide, std::max<std::int64_t>(1, b.in / 4)));
  zoo::add_conv_norm(body, "3", {.in = wide, .out = b.out, .kernel = 1, .activation = Activation::none});
  if (b.stride != 1 || b.in != b.out) {
    net.add(name, body);
    return;
  }
  if (b.skip > 0) body.add("skip", StochasticDepth(b.skip));
  net.add(name, nn::Residual(body));
}

struct Stage {
  std::int64_t expand, kernel, stride, out, depth;
};

// Adds blocks stage by stage; returns the output channels. `like` holds the options common to all blocks.
std::int64_t add_stages(Sequential& net, std::span<const Stage> stages, std::int64_t in, double width, Block like,
                        double last_skip) {
  std::int64_t blocks = 0, done = 0;
  for (const Stage& stage : stages) blocks += stage.depth;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    for (std::int64_t i = 0; i < stage.depth; ++i) {
      like.in = in;
      like.out = round_channels(static_cast<double>(stage.out) * width);
      like.expand = stage.expand;
      like.kernel = stage.kernel;
      like.stride = i == 0 ? stage.stride : 1;
      like.skip = last_skip * static_cast<double>(done++) / static_cast<double>(blocks);
      add_inverted(net, "stage" + std::to_string(s + 1) + "_" + std::to_string(i + 1), like);
      in = like.out;
    }
  }
  return in;
}

void add_head(Sequential& net, std::int64_t in, std::int64_t out, Activation activation, double dropout,
              std::int64_t classes) {
  zoo::add_conv_norm(net, "_head", {.in = in, .out = out, .kernel = 1, .activation = activation});
  net.add("pool", nn::GlobalAvgPool());
  if (dropout > 0) net.add("drop", nn::Dropout(dropout));
  net.add("fc", nn::Linear({.in = out, .out = classes}));
}

constexpr Stage kMobilenet[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 3, 2, 32, 3}, {6, 3, 2, 64, 4},
                                {6, 3, 1, 96, 3}, {6, 3, 2, 160, 3}, {6, 3, 1, 320, 1}};
constexpr Stage kEfficientnet[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                                   {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

template <class Options>
Settings common_settings() {
  return {zoo::classes_setting<Options>(), zoo::channels_setting<Options>(), zoo::image_setting<Options>(8),
          zoo::width_setting<Options>(),
          zoo::dropout_setting<Options>("share of the last units dropped while training")};
}

template <class Options>
void add_to(zoo::Table& table, const char* name, const char* doc, const zoo::Sizes<Options>& sizes,
            Sequential (*make)(const Options&)) {
  table.add_net<Options>(name, doc, sizes, [make](const Options& o) {
    return zoo::image_classifier({o.channels, o.image, o.image}, o.classes, [o, make] { return make(o); });
  });
}

}  // namespace

Settings zoo::MobilenetOptions::settings() { return common_settings<MobilenetOptions>(); }

Settings zoo::EfficientnetOptions::settings() {
  Settings all = common_settings<EfficientnetOptions>();
  all.push_back(setting("stochastic_depth", &EfficientnetOptions::stochastic_depth,
                        "chance that a sample skips the last block; earlier ones in proportion",
                        {.min = 0, .max = 0.99}));
  return all;
}

Sequential zoo::mobilenet_v2(const MobilenetOptions& o) {
  Sequential net;
  const std::int64_t first = round_channels(32 * o.width);
  add_conv_norm(net, "1", {.in = o.channels, .out = first, .stride = 2, .activation = Activation::relu6});
  const std::int64_t in = add_stages(net, kMobilenet, first, o.width, {.activation = Activation::relu6}, 0);
  add_head(net, in, round_channels(1280 * std::max(1.0, o.width)), Activation::relu6, o.dropout, o.classes);
  return net;
}

Sequential zoo::efficientnet_b0(const EfficientnetOptions& o) {
  Sequential net;
  const std::int64_t first = round_channels(32 * o.width);
  add_conv_norm(net, "1", {.in = o.channels, .out = first, .stride = 2, .activation = Activation::silu});
  const std::int64_t in = add_stages(net, kEfficientnet, first, o.width,
                                     {.activation = Activation::silu, .squeeze = true}, o.stochastic_depth);
  add_head(net, in, 4 * in, Activation::silu, o.dropout, o.classes);
  return net;
}

void register_zoo_mobilenet(zoo::Table& table) {
  add_to<zoo::MobilenetOptions>(
      table, "mobilenet_v2", "MobileNetV2: inverted residuals, depthwise convolutions, relu6.",
      {.bench = {.dropout = 0}, .batch = 16, .small = {.classes = 10, .image = 64, .width = 0.25, .dropout = 0}},
      zoo::mobilenet_v2);
  add_to<zoo::EfficientnetOptions>(table, "efficientnet_b0",
                                   "EfficientNet-B0: inverted residuals, squeeze-excite, silu, stochastic depth.",
                                   {.bench = {.dropout = 0, .stochastic_depth = 0},
                                    .batch = 16,
                                    .small = {.classes = 10, .image = 64, .width = 0.25, .dropout = 0}},
                                   zoo::efficientnet_b0);
}

}  // namespace starling
