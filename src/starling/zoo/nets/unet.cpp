#include "starling/zoo/nets/unet.h"

#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/zoo/conv_norm.h"
#include "starling/zoo/recipes.h"

namespace starling {
namespace {

std::shared_ptr<nn::Module> two_convs(std::int64_t in, std::int64_t out) {
  auto made = std::make_shared<nn::Sequential>();
  zoo::add_conv_norm(*made, "1", {.in = in, .out = out});
  zoo::add_conv_norm(*made, "2", {.in = out, .out = out});
  return made;
}

}  // namespace

Settings zoo::UnetOptions::settings() {
  using O = UnetOptions;
  return {classes_setting<O>(), channels_setting<O>(), image_setting<O>(2),
          setting("filters", &O::filters, "filters of the finest level; each coarser one has twice as many",
                  {.min = 1, .max = 4096}),
          setting("depth", &O::depth, "times that the image is halved", {.min = 1, .max = 10})};
}

zoo::Unet::Unet(const UnetOptions& o) : options_(o) {
  check(o.image % (std::int64_t{1} << o.depth) == 0,
        "[unet] expected an image whose size can be halved {} times, got {}", o.depth, o.image);
  pool_ = add_module("pool", std::make_shared<nn::MaxPool2d>());
  std::int64_t in = o.channels;
  for (std::int64_t level = 0; level <= o.depth; ++level) {
    const std::int64_t out = o.filters << level;
    down_.push_back(add_module("down" + std::to_string(level), two_convs(in, out)));
    in = out;
  }
  for (std::int64_t level = o.depth; level-- > 0;) {
    const std::string number = std::to_string(level);
    const std::int64_t out = o.filters << level;
    up_.push_back(add_module("up" + number, std::make_shared<nn::ConvTranspose2d>(nn::ConvTransposeOptions{
                                                .in = in, .out = out, .kernel = 2, .stride = 2})));
    mix_.push_back(add_module("mix" + number, two_convs(2 * out, out)));
    in = out;
  }
  head_ = add_module("head", std::make_shared<nn::Conv2d>(nn::Conv2dOptions{.in = in, .out = o.classes, .kernel = 1}));
}

Tensor zoo::Unet::forward(const Tensor& x) {
  const std::int64_t step = std::int64_t{1} << options_.depth;
  check(x.rank() == 4 && x.size(2) % step == 0 && x.size(3) % step == 0,
        "[unet] expected x [n, c, h, w] with h and w multiples of {}, got {}", step, to_string(x.type()));
  std::vector<Tensor> levels;
  for (const auto& down : down_) levels.push_back((*down)(levels.empty() ? x : (*pool_)(levels.back())));
  Tensor image = levels.back();
  for (std::size_t i = 0; i < up_.size(); ++i)
    image = (*mix_[i])(concat({levels[levels.size() - 2 - i], (*up_[i])(image)}, 1));
  return (*head_)(image);
}

void register_zoo_unet(zoo::Table& table) {
  using O = zoo::UnetOptions;
  table.add_net<O>("unet", "U-Net with padding and batch norm: a class for every pixel.",
                   {.batch = 2, .small = {.classes = 3, .image = 16, .filters = 4, .depth = 2}}, [](const O& o) {
                     return zoo::Recipe{zoo::maker([o] { return zoo::Unet(o); }),
                                        {{.sample = {o.channels, o.image, o.image}},
                                         {.sample = {o.image, o.image}, .below = o.classes}},
                                        "classify"};
                   });
}

}  // namespace starling
