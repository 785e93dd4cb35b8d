#include <optional>

#include "starling/data/pictures/image_transform.h"
#include "starling/data/pictures/resample.h"

namespace starling::data {
namespace {

struct ResizeOptions {
  std::vector<std::int64_t> size{};
  ResizeMode mode = ResizeMode::smooth;
  static Settings settings() {
    return {required(setting("size", &ResizeOptions::size, "height and width to come to", {.min = 1, .max = 65536})),
            choice("mode", &ResizeOptions::mode, {"bilinear", "smooth", "area"},
                   "bilinear: of the nearest pixels; smooth: bilinear without aliasing; area: means")};
  }
};

class Resize final : public ImageTransform {
 public:
  explicit Resize(ResizeOptions options) : options_(std::move(options)) {
    check(options_.size.size() == 2, "[transform] expected a height and a width to resize to, got {} numbers",
          options_.size.size());
  }

 protected:
  TensorType image(TensorType in) const override {
    in.shape[1] = options_.size[0];
    in.shape[2] = options_.size[1];
    return in;
  }

  void apply_image(const FieldView& in, const FieldView& out, const SampleKey&) const override {
    const ImageSize from(in), to(out);
    // Images of a data set usually have one size, so the cached weights fit the next one.
    thread_local std::optional<Cached> cached;
    const Cached wanted{options_.mode, {from.height, from.width, to.height, to.width}, {}};
    if (!cached || cached->mode != wanted.mode || cached->sizes != wanted.sizes) {
      cached = wanted;
      cached->resampler.emplace(options_.mode, from.height, from.width, to.height, to.width);
    }
    const auto in_format = PixelFormat::planes(from.channels, from.height, from.width);
    const auto out_format = PixelFormat::planes(to.channels, to.height, to.width);
    with_pixels(in, out, [&]<class T>(const T* source, T* made) {
      cached->resampler->apply(source, in_format, made, out_format);
    });
  }

 private:
  struct Cached {
    ResizeMode mode;
    Shape sizes;
    std::optional<Resampler> resampler;
  };
  ResizeOptions options_;
};

}  // namespace

void register_transform_resize(TransformKinds& kinds);
void register_transform_resize(TransformKinds& kinds) {
  kinds.add<ResizeOptions>("resize", "Brings pictures to another size",
                           [](const ResizeOptions& o) { return std::make_shared<const Resize>(o); });
}

}  // namespace starling::data
