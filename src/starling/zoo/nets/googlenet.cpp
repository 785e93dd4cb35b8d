#include "starling/zoo/nets/googlenet.h"

#include "starling/base/error.h"
#include "starling/nn/containers.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/loss.h"
#include "starling/zoo/conv_norm.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

using zoo::GooglenetOptions;

constexpr double kEps = 1e-3;  // of the batch norms

nn::Sequential conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  nn::Sequential made;
  zoo::add_conv_norm(made, "", {.in = in, .out = out, .kernel = kernel, .stride = stride, .eps = kEps});
  return made;
}

// Published filters of a module: 1 × 1; before and after the 3 × 3; before and after the 5 × 5; after the pooling.
struct Filters {
  const char* name;
  std::int64_t one, three_in, three, five_in, five, pool;
};

// Inception module: four branches over the same input, outputs concatenated along the channels.
nn::Parallel inception(std::int64_t in, const Filters& f, std::int64_t third_kernel) {
  nn::Sequential three, five, pool;
  three.add("reduce", conv(in, f.three_in, 1)).add("conv", conv(f.three_in, f.three, 3));
  five.add("reduce", conv(in, f.five_in, 1)).add("conv", conv(f.five_in, f.five, third_kernel));
  pool.add("pool", nn::MaxPool2d({.kernel = 3, .stride = 1, .padding = 1})).add("conv", conv(in, f.pool, 1));
  nn::Parallel made;
  made.add("one", conv(in, f.one, 1)).add("three", three).add("five", five).add("pool", pool);
  return made;
}

nn::Sequential auxiliary_head(std::int64_t in, const GooglenetOptions& o) {
  const std::int64_t filters = zoo::scaled(128, o.width), dense = zoo::scaled(1024, o.width);
  nn::Sequential head;
  head.add("pool", nn::AdaptiveAvgPool2d({.size = 4}))
      .add("conv", conv(in, filters, 1))
      .add("flatten", nn::Flatten())
      .add("fc1", nn::Linear({.in = filters * 16, .out = dense}))
      .add("relu", nn::Relu());
  if (o.dropout > 0) head.add("drop", nn::Dropout(0.7));
  head.add("fc2", nn::Linear({.in = dense, .out = o.classes}));
  return head;
}

}  // namespace

Settings zoo::GooglenetOptions::settings() {
  using O = GooglenetOptions;
  return {classes_setting<O>(),
          channels_setting<O>(),
          image_setting<O>(32),
          width_setting<O>(),
          dropout_setting<O>("share of the last units dropped while training; 0: also none in the auxiliary heads"),
          setting("auxiliary", &O::auxiliary, "two more heads, whose losses are added while training"),
          setting("auxiliary_weight", &O::auxiliary_weight, "of the loss of each of them", {.min = 0, .max = 10}),
          setting("third_kernel", &O::third_kernel,
                  "window of the branch that is 5 × 5 in the paper; 3 is what torchvision has", {.min = 3, .max = 5})};
}

zoo::Googlenet::Googlenet(const GooglenetOptions& o) : options_(o) {
  check(o.third_kernel != 4, "[googlenet] expected third_kernel 3 or 5, got 4");
  const auto w = [&](std::int64_t published) { return scaled(published, o.width); };
  const auto put = [&](const std::string& name, auto module, int auxiliary = -1) {
    body_.emplace_back(add_module(name, std::make_shared<decltype(module)>(std::move(module))), auxiliary);
  };
  const nn::MaxPool2d halve({.kernel = 3, .stride = 2, .ceil_mode = true});
  put("conv1", conv(o.channels, w(64), 7, 2));
  put("pool1", halve);
  put("conv2", conv(w(64), w(64), 1));
  put("conv3", conv(w(64), w(192), 3));
  put("pool2", halve);
  std::int64_t in = w(192);
  std::vector<std::int64_t> seen;  // input channels of each auxiliary head
  const auto mix = [&](const Filters& f, int auxiliary = -1) {
    const Filters here{f.name, w(f.one), w(f.three_in), w(f.three), w(f.five_in), w(f.five), w(f.pool)};
    put(std::string("inception") + f.name, inception(in, here, o.third_kernel), auxiliary);
    in = here.one + here.three + here.five + here.pool;
    if (auxiliary >= 0) seen.push_back(in);
  };
  mix({"3a", 64, 96, 128, 16, 32, 32});
  mix({"3b", 128, 128, 192, 32, 96, 64});
  put("pool3", halve);
  mix({"4a", 192, 96, 208, 16, 48, 64}, 0);
  mix({"4b", 160, 112, 224, 24, 64, 64});
  mix({"4c", 128, 128, 256, 24, 64, 64});
  mix({"4d", 112, 144, 288, 32, 64, 64}, 1);
  mix({"4e", 256, 160, 320, 32, 128, 128});
  put("pool4", nn::MaxPool2d({.kernel = 2, .stride = 2, .ceil_mode = true}));
  mix({"5a", 256, 160, 320, 32, 128, 128});
  mix({"5b", 384, 192, 384, 48, 128, 128});
  for (std::size_t i = 0; o.auxiliary && i < seen.size(); ++i) {
    auxiliary_.push_back(
        add_module("auxiliary" + std::to_string(i + 1), std::make_shared<nn::Sequential>(auxiliary_head(seen[i], o))));
  }
  nn::Sequential head;
  head.add("pool", nn::GlobalAvgPool());
  if (o.dropout > 0) head.add("drop", nn::Dropout(o.dropout));
  head.add("fc", nn::Linear({.in = in, .out = o.classes}));
  head_ = add_module("head", std::make_shared<nn::Sequential>(head));
}

std::vector<Tensor> zoo::Googlenet::heads(const Tensor& x, bool auxiliary) {
  Tensor image = x;
  std::vector<Tensor> logits{Tensor()};
  for (const auto& [module, looks] : body_) {
    image = (*module)(image);
    if (auxiliary && looks >= 0) logits.push_back((*auxiliary_[static_cast<std::size_t>(looks)])(image));
  }
  logits[0] = (*head_)(image);
  return logits;
}

Tensor zoo::Googlenet::forward(const Tensor& x) { return heads(x, false)[0]; }

nn::OwnLoss::Outputs zoo::Googlenet::own_loss(std::span<const Tensor> fields) {
  check(fields.size() >= 2, "[googlenet] expected images and labels, got {} fields", fields.size());
  const std::vector<Tensor> logits = heads(fields[0], training() && options_.auxiliary);
  Tensor loss = cross_entropy(logits[0], fields[1]);
  for (std::size_t i = 1; i < logits.size(); ++i)
    loss = loss + cross_entropy(logits[i], fields[1]) * options_.auxiliary_weight;
  return {.loss = loss, .prediction = logits[0], .target = fields[1]};
}

void register_zoo_googlenet(zoo::Table& table) {
  table.add_net<GooglenetOptions>(
      "googlenet", "GoogLeNet (Inception v1) with batch norm: nine inception modules.",
      {.bench = {.dropout = 0},
       .batch = 16,
       .small = {.classes = 10, .image = 64, .width = 0.125, .dropout = 0, .auxiliary = true}},
      [](const GooglenetOptions& o) {
        return zoo::image_classifier({o.channels, o.image, o.image}, o.classes, [o] { return zoo::Googlenet(o); });
      });
}

}  // namespace starling
