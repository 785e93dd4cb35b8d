#include "starling/data/pictures/affine.h"

#include "starling/data/pictures/image_transform.h"

namespace starling::data {
namespace {

struct AffineOptions {
  double degrees = 0;
  std::vector<double> translate{0, 0};
  std::vector<double> scale{1, 1};
  double shear = 0;
  double fill = 0;
  static Settings settings() {
    return {
        setting("degrees", &AffineOptions::degrees, "turn by up to so many degrees, either way",
                {.min = 0, .max = 180}),
        setting("translate", &AffineOptions::translate, "shift by up to these shares of the height and the width",
                {.min = 0, .max = 1}),
        setting("scale", &AffineOptions::scale, "smallest and largest scale", {.min = 0.01, .max = 100}),
        setting("shear", &AffineOptions::shear, "shear by up to so many degrees, either way", {.min = 0, .max = 80}),
        setting("fill", &AffineOptions::fill, "value outside the picture, 0 to 1 (of 255 in bytes)")};
  }
};

class RandomAffine final : public ImageTransform {
 public:
  explicit RandomAffine(AffineOptions options) : options_(std::move(options)) {
    check(options_.translate.size() == 2 && options_.scale.size() == 2 && options_.scale[0] <= options_.scale[1],
          "[transform] expected two shares to translate by and two scales in order, got {} and {} numbers",
          options_.translate.size(), options_.scale.size());
  }
  bool random() const override { return true; }

 protected:
  void apply_image(const FieldView& in, const FieldView& out, const SampleKey& key) const override {
    const ImageSize size(in);
    Draws draws(key);
    Affine affine;
    affine.angle = draws.uniform(-options_.degrees, options_.degrees);
    affine.shift_y = draws.uniform(-1, 1) * options_.translate[0] * static_cast<double>(size.height);
    affine.shift_x = draws.uniform(-1, 1) * options_.translate[1] * static_cast<double>(size.width);
    affine.scale = draws.uniform(options_.scale[0], options_.scale[1]);
    affine.shear = draws.uniform(-options_.shear, options_.shear);
    with_pixels(in, out, [&]<class T>(const T* from, T* to) {
      warp(from, to, size.channels, size.height, size.width, affine, pixel_value<T>(options_.fill));
    });
  }

 private:
  AffineOptions options_;
};

struct RotateOptions {
  double degrees = 10;
  double fill = 0;
  static Settings settings() {
    return {setting("degrees", &RotateOptions::degrees, "by up to so many degrees, either way", {.min = 0, .max = 180}),
            setting("fill", &RotateOptions::fill, "value outside the picture, 0 to 1 (of 255 in bytes)")};
  }
};

}  // namespace

void register_transform_affine(TransformKinds& kinds);
void register_transform_affine(TransformKinds& kinds) {
  kinds.add<AffineOptions>("affine", "Turns, shifts, scales and shears pictures by random amounts",
                           [](const AffineOptions& o) { return std::make_shared<const RandomAffine>(o); });
  kinds.add<RotateOptions>("rotate", "Turns pictures by a random angle", [](const RotateOptions& o) {
    AffineOptions options;
    options.degrees = o.degrees;
    options.fill = o.fill;
    return std::make_shared<const RandomAffine>(options);
  });
}

}  // namespace starling::data
