#include <algorithm>
#include <cmath>

#include "starling/data/pictures/image_transform.h"

namespace starling::data {
namespace {

struct CutoutOptions {
  std::int64_t size = 8;
  std::int64_t holes = 1;
  double fill = 0;
  static Settings settings() {
    return {setting("size", &CutoutOptions::size, "side of the square", {.min = 1}),
            setting("holes", &CutoutOptions::holes, "how many squares", {.min = 1, .max = 100}),
            setting("fill", &CutoutOptions::fill, "value put there, 0 to 1 (of 255 in bytes)")};
  }
};

struct ErasingOptions {
  double chance = 0.5;
  double min_area = 0.02, max_area = 0.33;
  double min_ratio = 0.3, max_ratio = 3.3;
  bool noise = false;
  double fill = 0;
  static Settings settings() {
    return {setting("chance", &ErasingOptions::chance, "share of the samples", {.min = 0, .max = 1}),
            setting("min_area", &ErasingOptions::min_area, "smallest share of the picture", {.min = 0, .max = 1}),
            setting("max_area", &ErasingOptions::max_area, "largest share of the picture", {.min = 0, .max = 1}),
            setting("min_ratio", &ErasingOptions::min_ratio, "smallest height over width", {.min = 0.01, .max = 100}),
            setting("max_ratio", &ErasingOptions::max_ratio, "largest height over width", {.min = 0.01, .max = 100}),
            setting("noise", &ErasingOptions::noise, "random values of 0 to 1 rather than the fill"),
            setting("fill", &ErasingOptions::fill, "value put there, 0 to 1 (of 255 in bytes)")};
  }
};

struct Box {
  std::int64_t top, left, bottom, right;
};

// Calls value(at) for each element in the box, plane after plane.
template <class T, class F>
void paint(T* to, const ImageSize& size, const Box& box, F&& value) {
  for (std::int64_t c = 0; c < size.channels; ++c) {
    for (std::int64_t y = box.top; y < box.bottom; ++y) {
      T* row = to + (c * size.height + y) * size.width;
      for (std::int64_t x = box.left; x < box.right; ++x) row[x] = value();
    }
  }
}

// DeVries and Taylor 2017: squares around random pixels, cut off at the border.
class Cutout final : public ImageTransform {
 public:
  explicit Cutout(const CutoutOptions& options) : options_(options) {}
  bool random() const override { return true; }

 protected:
  void apply_image(const FieldView& in, const FieldView& out, const SampleKey& key) const override {
    const ImageSize size(in);
    Draws draws(key);
    with_pixels(in, out, [&]<class T>(const T* from, T* to) {
      std::copy_n(from, size.numel(), to);
      for (std::int64_t i = 0; i < options_.holes; ++i) {
        const std::int64_t top = draws.below(size.height) - options_.size / 2;
        const std::int64_t left = draws.below(size.width) - options_.size / 2;
        const Box box{std::max<std::int64_t>(top, 0), std::max<std::int64_t>(left, 0),
                      std::min(top + options_.size, size.height), std::min(left + options_.size, size.width)};
        paint(to, size, box, [&] { return pixel_value<T>(options_.fill); });
      }
    });
  }

 private:
  CutoutOptions options_;
};

// Zhong et al. 2017: a rectangle of random area and shape that fits into the picture.
class RandomErasing final : public ImageTransform {
 public:
  explicit RandomErasing(const ErasingOptions& options) : options_(options) {
    check(options.min_area <= options.max_area && options.min_ratio <= options.max_ratio,
          "[transform] expected bounds in order, got areas {} to {} and ratios {} to {}", options.min_area,
          options.max_area, options.min_ratio, options.max_ratio);
  }
  bool random() const override { return true; }

 protected:
  void apply_image(const FieldView& in, const FieldView& out, const SampleKey& key) const override {
    const ImageSize size(in);
    Draws draws(key);
    const bool erases = draws.chance(options_.chance);
    with_pixels(in, out, [&]<class T>(const T* from, T* to) {
      std::copy_n(from, size.numel(), to);
      Box box{};
      if (!erases || !find_box(draws, size, box)) return;
      paint(to, size, box, [&] { return pixel_value<T>(options_.noise ? draws.uniform() : options_.fill); });
    });
  }

 private:
  bool find_box(Draws& draws, const ImageSize& size, Box& box) const {
    constexpr int kAttempts = 10;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double area =
          draws.uniform(options_.min_area, options_.max_area) * static_cast<double>(size.height * size.width);
      const double ratio = std::exp(draws.uniform(std::log(options_.min_ratio), std::log(options_.max_ratio)));
      const auto height = static_cast<std::int64_t>(std::lround(std::sqrt(area * ratio)));
      const auto width = static_cast<std::int64_t>(std::lround(std::sqrt(area / ratio)));
      if (height < 1 || width < 1 || height > size.height || width > size.width) continue;
      const std::int64_t top = draws.below(size.height - height + 1), left = draws.below(size.width - width + 1);
      box = {top, left, top + height, left + width};
      return true;
    }
    return false;
  }

  ErasingOptions options_;
};

}  // namespace

void register_transform_cutout(TransformKinds& kinds);
void register_transform_cutout(TransformKinds& kinds) {
  kinds.add<CutoutOptions>("cutout", "Blanks squares at random places",
                           [](const CutoutOptions& o) { return std::make_shared<const Cutout>(o); });
  kinds.add<ErasingOptions>("random_erasing", "Blanks a rectangle of random size and place in some of the pictures",
                            [](const ErasingOptions& o) { return std::make_shared<const RandomErasing>(o); });
}

}  // namespace starling::data
