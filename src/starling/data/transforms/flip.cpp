#include <algorithm>

#include "starling/data/pictures/image_transform.h"

namespace starling::data {
namespace {

struct FlipOptions {
  bool vertical = false;
  double chance = 0.5;
  static Settings settings() {
    return {setting("vertical", &FlipOptions::vertical, "upside down rather than left to right"),
            setting("chance", &FlipOptions::chance, "share of the samples that are flipped", {.min = 0, .max = 1})};
  }
};

template <class T>
void flip(const T* from, T* to, const ImageSize& size, bool vertical) {
  for (std::int64_t c = 0; c < size.channels; ++c) {
    for (std::int64_t y = 0; y < size.height; ++y, from += size.width) {
      T* row = to + (c * size.height + (vertical ? size.height - 1 - y : y)) * size.width;
      if (vertical) {
        std::copy_n(from, size.width, row);
      } else {
        std::reverse_copy(from, from + size.width, row);
      }
    }
  }
}

class Flip final : public ImageTransform {
 public:
  explicit Flip(const FlipOptions& options) : options_(options) {}
  bool random() const override { return true; }

 protected:
  void apply_image(const FieldView& in, const FieldView& out, const SampleKey& key) const override {
    const ImageSize size(in);
    const bool flips = Draws(key).chance(options_.chance);
    with_pixels(in, out, [&]<class T>(const T* from, T* to) {
      if (flips) {
        flip(from, to, size, options_.vertical);
      } else {
        std::copy_n(from, size.numel(), to);
      }
    });
  }

 private:
  FlipOptions options_;
};

}  // namespace

void register_transform_flip(TransformKinds& kinds);
void register_transform_flip(TransformKinds& kinds) {
  kinds.add<FlipOptions>("flip", "Mirrors some of the pictures",
                         [](const FlipOptions& o) { return std::make_shared<const Flip>(o); });
}

}  // namespace starling::data
