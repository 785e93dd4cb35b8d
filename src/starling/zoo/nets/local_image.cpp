#include "starling/zoo/nets/local_image.h"

#include "starling/base/error.h"
#include "starling/nn/layers.h"
#include "starling/nn/normalize.h"
#include "starling/zoo/recipes.h"

namespace starling {

Settings zoo::LocalImageOptions::settings() {
  using O = LocalImageOptions;
  return {classes_setting<O>(),
          channels_setting<O>(),
          image_setting<O>(4),
          setting("maps", &O::maps, "units that look at the same patch", {.min = 1, .max = 4096}),
          setting("stages", &O::stages, "stages of filters, pooling and contrast normalisation", {.min = 1, .max = 20}),
          setting("kernel", &O::kernel, "height and width of the patches", {.min = 1, .max = 100}),
          setting("pool", &O::pool, "height and width of the L2 pooling", {.min = 1, .max = 100})};
}

nn::Sequential zoo::local_image(const LocalImageOptions& o) {
  nn::Sequential net;
  std::int64_t in = o.channels, size = o.image;
  for (std::int64_t i = 1; i <= o.stages; ++i) {
    const std::string number = std::to_string(i);
    const std::int64_t left = size - o.kernel + 1 - o.pool + 1;
    check(left > 0, "[local_image] expected images that {} stages of {} + {} pixels fit into, got {}", o.stages,
          o.kernel, o.pool, o.image);
    net.add("local" + number,
            nn::LocallyConnected2d({.in = in, .out = o.maps, .height = size, .width = size, .kernel = o.kernel}))
        .add("pool" + number, nn::LpPool2d({.p = 2, .kernel = o.pool, .stride = 1}))
        .add("contrast" + number, nn::LocalContrastNorm());
    in = o.maps;
    size = left;
  }
  net.add("flatten", nn::Flatten()).add("fc", nn::Linear({.in = in * size * size, .out = o.classes}));
  return net;
}

void register_zoo_local_image(zoo::Table& table) {
  using O = zoo::LocalImageOptions;
  table.add_net<O>(
      "local_image",
      "DistBelief's image model: three stages of locally connected 10 × 10 filters, L2 pooling and contrast "
      "normalisation.",
      {.batch = 8,
       .small = {.classes = 10, .channels = 2, .image = 16, .maps = 3, .stages = 2, .kernel = 4, .pool = 2}},
      [](const O& o) {
        return zoo::image_classifier({o.channels, o.image, o.image}, o.classes, [o] { return zoo::local_image(o); });
      });
}

}  // namespace starling
