#include <array>
#include <cmath>

#include "starling/nn/normalize.h"
#include "starling/nn/residual.h"
#include "starling/zoo/width.h"

namespace starling {
namespace {

using nn::Sequential;

struct Kind {
  const char* name;
  const char* doc;
  bool bottleneck;
  std::array<std::int64_t, 4> depths;
};
constexpr Kind kKinds[] = {
    {"resnet18", "ResNet with 18 layers, batch norm.", false, {2, 2, 2, 2}},
    {"resnet34", "ResNet with 34 layers, batch norm.", false, {3, 4, 6, 3}},
    {"resnet50", "ResNet with 50 layers, bottlenecks, batch norm.", true, {3, 4, 6, 3}},
};
constexpr std::int64_t kExpansion = 4;  // of a bottleneck's output over its width

// A convolution that keeps the size (divided by the stride) and its batch norm. Weights begin as He et al. have them,
// so that gradients keep their size on the way back.
void add_conv(Sequential& to, const std::string& number, const nn::Conv2dOptions& conv, double norm_weight = 1) {
  nn::Conv2dOptions o = conv;
  o.padding = o.kernel / 2;
  o.bias = false;
  o.stddev = std::sqrt(2 / static_cast<double>(o.out * o.kernel * o.kernel));
  to.add("conv" + number, nn::Conv2d(o))
      .add("norm" + number, nn::BatchNorm2d({.channels = o.out, .weight = norm_weight}));
}

// The last norm of a block begins at zero, so that every block begins as the identity: training starts smoothly, and
// rounding does not grow from step to step.
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

Sequential resnet(const Kind& kind, const zoo::NetOptions& options) {
  Sequential net;
  std::int64_t channels = zoo::scaled(64, options);
  add_conv(net, "1", {.in = 3, .out = channels, .kernel = 7, .stride = 2});
  net.add("relu1", nn::Relu()).add("pool1", nn::MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}));
  for (std::size_t stage = 0; stage < kind.depths.size(); ++stage) {
    const std::int64_t width = zoo::scaled(64 << stage, options), out = kind.bottleneck ? width * kExpansion : width;
    const std::int64_t depth = zoo::or_published(options.depth, kind.depths[stage]);
    for (std::int64_t i = 0; i < depth; ++i) {
      const std::int64_t stride = i == 0 && stage > 0 ? 2 : 1;
      Sequential shortcut;
      if (channels != out || stride > 1)
        add_conv(shortcut, "", {.in = channels, .out = out, .kernel = 1, .stride = stride});
      const std::string name = "stage" + std::to_string(stage + 1) + "_" + std::to_string(i + 1);
      net.add(name, nn::Residual(block_body(kind.bottleneck, channels, width, stride), shortcut))
          .add(name + "_relu", nn::Relu());
      channels = out;
    }
  }
  net.add("pool", nn::GlobalAvgPool()).add("fc", nn::Linear({.in = channels, .out = options.classes}));
  return net;
}

}  // namespace

Sequential zoo::resnet18(const NetOptions& options) { return resnet(kKinds[0], options); }
Sequential zoo::resnet34(const NetOptions& options) { return resnet(kKinds[1], options); }
Sequential zoo::resnet50(const NetOptions& options) { return resnet(kKinds[2], options); }

void register_zoo_resnet(zoo::Table& table) {
  const zoo::Setting small{{.width = 0.125, .image = 64}, {3, 64, 64}, 4};
  for (const Kind& kind : kKinds) {
    table[kind.name] = {
        kind.doc, {3, 224, 224}, 1000, 16, [&kind](const zoo::NetOptions& o) { return resnet(kind, o); }, small};
  }
}

}  // namespace starling
