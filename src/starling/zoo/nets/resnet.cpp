#include "starling/zoo/nets/resnet.h"

#include <array>
#include <cmath>

#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/nn/residual.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

using nn::Sequential;

struct Published {
  const char* name;
  const char* doc;
  bool bottleneck;
  std::array<std::int64_t, 4> depths;
};
constexpr Published kKinds[] = {
    {"resnet18", "ResNet with 18 layers, batch norm.", false, {2, 2, 2, 2}},
    {"resnet34", "ResNet with 34 layers, batch norm.", false, {3, 4, 6, 3}},
    {"resnet50", "ResNet with 50 layers, bottlenecks, batch norm.", true, {3, 4, 6, 3}},
    {"resnet101", "ResNet with 101 layers, bottlenecks, batch norm.", true, {3, 4, 23, 3}},
    {"resnet152", "ResNet with 152 layers, bottlenecks, batch norm.", true, {3, 8, 36, 3}},
};
constexpr std::int64_t kExpansion = 4;  // output channels of a bottleneck over its width

// Adds a convolution that keeps the size (divided by the stride) and its batch norm. Weights use He initialisation by
// fan-out, which keeps the variance of gradients.
void add_conv(Sequential& to, const std::string& number, const nn::Conv2dOptions& conv, double norm_weight = 1) {
  nn::Conv2dOptions o = conv;
  o.padding = o.kernel / 2;
  o.bias = false;
  o.stddev = std::sqrt(2 / static_cast<double>(o.out * o.kernel * o.kernel));
  to.add("conv" + number, nn::Conv2d(o))
      .add("norm" + number, nn::BatchNorm2d({.channels = o.out, .weight = norm_weight}));
}

// The last norm of a block starts at weight 0, so that every block starts as the identity: training starts smoothly,
// and rounding errors do not grow from step to step.
Sequential block_body(bool bottleneck, std::int64_t in, std::int64_t width, std::int64_t stride) {
  Sequential body;
  if (!bottleneck) {
    add_conv(body, "1", {.in = in, .out = width, .stride = stride});
    body.add("relu1", nn::Relu());
    add_conv(body, "2", {.in = width, .out = width}, 0);
    return body;
  }
  add_conv(body, "1", {.in = in, .out = width, .kernel = 1});
  body.add("relu1", nn::Relu());
  add_conv(body, "2", {.in = width, .out = width, .stride = stride});
  body.add("relu2", nn::Relu());
  add_conv(body, "3", {.in = width, .out = width * kExpansion, .kernel = 1}, 0);
  return body;
}

void add_block(Sequential& net, const std::string& name, bool bottleneck, std::int64_t in, std::int64_t width,
               std::int64_t stride) {
  const std::int64_t out = bottleneck ? width * kExpansion : width;
  Sequential shortcut;
  if (in != out || stride > 1) add_conv(shortcut, "", {.in = in, .out = out, .kernel = 1, .stride = stride});
  net.add(name, nn::Residual(block_body(bottleneck, in, width, stride), shortcut)).add(name + "_relu", nn::Relu());
}

std::string block_name(std::size_t stage, std::int64_t block) {
  return "stage" + std::to_string(stage + 1) + "_" + std::to_string(block + 1);
}

Sequential resnet(const Published& kind, const zoo::ResnetOptions& o) {
  Sequential net;
  std::int64_t channels = zoo::scaled(64, o.width);
  add_conv(net, "1", {.in = o.channels, .out = channels, .kernel = 7, .stride = 2});
  net.add("relu1", nn::Relu()).add("pool1", nn::MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}));
  for (std::size_t stage = 0; stage < kind.depths.size(); ++stage) {
    const std::int64_t width = zoo::scaled(64 << stage, o.width),
                       depth = zoo::or_published(o.depth, kind.depths[stage]);
    for (std::int64_t i = 0; i < depth; ++i) {
      add_block(net, block_name(stage, i), kind.bottleneck, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = kind.bottleneck ? width * kExpansion : width;
    }
  }
  net.add("pool", nn::GlobalAvgPool()).add("fc", nn::Linear({.in = channels, .out = o.classes}));
  return net;
}

}  // namespace

Settings zoo::ResnetOptions::settings() {
  return {classes_setting<ResnetOptions>(), channels_setting<ResnetOptions>(), image_setting<ResnetOptions>(1),
          width_setting<ResnetOptions>(),
          setting("depth", &ResnetOptions::depth, "blocks of every stage; 0: as published", {.min = 0, .max = 100})};
}

Settings zoo::ResnetSmallOptions::settings() {
  return {classes_setting<ResnetSmallOptions>(), channels_setting<ResnetSmallOptions>(),
          image_setting<ResnetSmallOptions>(1),
          setting("depth", &ResnetSmallOptions::depth, "blocks of each of the three stages: 6 · depth + 2 layers",
                  {.min = 1, .max = 200}),
          setting("filters", &ResnetSmallOptions::filters,
                  "filters of the first stage; each later stage has twice as many", {.min = 1, .max = 4096})};
}

Sequential zoo::resnet18(const ResnetOptions& options) { return resnet(kKinds[0], options); }
Sequential zoo::resnet34(const ResnetOptions& options) { return resnet(kKinds[1], options); }
Sequential zoo::resnet50(const ResnetOptions& options) { return resnet(kKinds[2], options); }
Sequential zoo::resnet101(const ResnetOptions& options) { return resnet(kKinds[3], options); }
Sequential zoo::resnet152(const ResnetOptions& options) { return resnet(kKinds[4], options); }

Sequential zoo::resnet_small(const ResnetSmallOptions& o) {
  Sequential net;
  add_conv(net, "1", {.in = o.channels, .out = o.filters});
  net.add("relu1", nn::Relu());
  std::int64_t channels = o.filters;
  for (std::size_t stage = 0; stage < 3; ++stage) {
    const std::int64_t width = o.filters << stage;
    for (std::int64_t i = 0; i < o.depth; ++i) {
      add_block(net, block_name(stage, i), false, channels, width, i == 0 && stage > 0 ? 2 : 1);
      channels = width;
    }
  }
  net.add("pool", nn::GlobalAvgPool()).add("fc", nn::Linear({.in = channels, .out = o.classes}));
  return net;
}

void register_zoo_resnet(zoo::Table& table) {
  for (const Published& kind : kKinds) {
    const bool deep = kind.depths[2] > 6;  // tested with one block per stage
    table.add_net<zoo::ResnetOptions>(
        kind.name, kind.doc,
        {.batch = 16, .small = {.classes = 10, .image = 64, .width = 0.125, .depth = deep ? 1 : 0}},
        [&kind](const zoo::ResnetOptions& o) {
          return zoo::image_classifier({o.channels, o.image, o.image}, o.classes,
                                       [&kind, o] { return resnet(kind, o); });
        });
  }
  table.add_net<zoo::ResnetSmallOptions>(
      "resnet_small", "ResNet for small images: three stages of 16, 32, 64 filters, 6 · depth + 2 layers, batch norm.",
      {.small = {.image = 16, .depth = 1, .filters = 8}}, [](const zoo::ResnetSmallOptions& o) {
        return zoo::image_classifier({o.channels, o.image, o.image}, o.classes, [o] { return zoo::resnet_small(o); });
      });
}

}  // namespace starling
