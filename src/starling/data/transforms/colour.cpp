#include "starling/data/pictures/colour.h"

#include <algorithm>
#include <array>
#include <utility>

#include "starling/data/pictures/image_transform.h"

namespace starling::data {
namespace {

struct JitterOptions {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
  static Settings settings() {
    return {setting("brightness", &JitterOptions::brightness, "factor between 1 - b and 1 + b", {.min = 0, .max = 10}),
            setting("contrast", &JitterOptions::contrast, "factor likewise", {.min = 0, .max = 10}),
            setting("saturation", &JitterOptions::saturation, "factor likewise", {.min = 0, .max = 10}),
            setting("hue", &JitterOptions::hue, "turn of the colour circle between -h and h", {.min = 0, .max = 0.5})};
  }
};

// Colour jitter: the four changes in random order and by random amounts, on values of 0 to 1 (or bytes).
class ColourJitter final : public ImageTransform {
 public:
  explicit ColourJitter(const JitterOptions& options) : options_(options) {}
  bool random() const override { return true; }

 protected:
  TensorType image(TensorType in) const override {
    check(in.shape[0] == 1 || in.shape[0] == 3, "expected a picture of 1 or 3 channels, got {}", to_string(in));
    return in;
  }

  void apply_image(const FieldView& in, const FieldView& out, const SampleKey& key) const override {
    const ImageSize size(in);
    const auto count = static_cast<std::size_t>(size.numel());
    if (in.type.dtype == DType::f32) {
      std::copy_n(in.as<float>(), count, out.as<float>());
      change({out.as<float>(), count}, size.channels, key);
      return;
    }
    thread_local std::vector<float> values;
    values.resize(count);
    const auto* from = in.as<std::uint8_t>();
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(from[i]) / 255.0F;
    change(values, size.channels, key);
    auto* to = out.as<std::uint8_t>();
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): none is negative; lround would give other bytes next to a half
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::uint8_t>(values[i] * 255.0F + 0.5F);
  }

 private:
  void change(std::span<float> picture, std::int64_t channels, const SampleKey& key) const {
    Draws draws(key);
    std::array<int, 4> order = {0, 1, 2, 3};
    for (std::size_t i = 3; i > 0; --i) {
      std::swap(order[i], order[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(i) + 1))]);
    }
    const auto factor = [&draws](double spread) {
      return static_cast<float>(draws.uniform(std::max(0.0, 1 - spread), 1 + spread));
    };
    const float brightness = factor(options_.brightness), contrast = factor(options_.contrast),
                saturation = factor(options_.saturation);
    const auto hue = static_cast<float>(draws.uniform(-options_.hue, options_.hue));
    for (const int which : order) {
      if (which == 0 && options_.brightness > 0) change_brightness(picture, brightness);
      if (which == 1 && options_.contrast > 0) change_contrast(picture, channels, contrast);
      if (which == 2 && options_.saturation > 0) change_saturation(picture, channels, saturation);
      if (which == 3 && options_.hue > 0) turn_hue(picture, channels, hue);
    }
  }

  JitterOptions options_;
};

}  // namespace

void register_transform_colour(TransformKinds& kinds);
void register_transform_colour(TransformKinds& kinds) {
  kinds.add<JitterOptions>("colour_jitter", "Random brightness, contrast, saturation and hue, of values of 0 to 1",
                           [](const JitterOptions& o) { return std::make_shared<const ColourJitter>(o); });
}

}  // namespace starling::data
