#include <algorithm>
#include <cstring>

#include "starling/data/pictures/image_transform.h"

namespace starling::data {
namespace {

// Copies the window of `in` that begins at (top, left) and has the size of `out`; pixels outside become `fill`.
template <class T>
void copy_window(const T* from, const ImageSize& in, T* to, const ImageSize& out, std::int64_t top, std::int64_t left,
                 T fill) {
  const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, out.width);
  const std::int64_t end = std::clamp<std::int64_t>(in.width - left, begin, out.width);
  for (std::int64_t c = 0; c < out.channels; ++c) {
    for (std::int64_t y = 0; y < out.height; ++y, to += out.width) {
      const std::int64_t row = top + y;
      if (row < 0 || row >= in.height) {
        std::fill_n(to, out.width, fill);
        continue;
      }
      const T* source = from + (c * in.height + row) * in.width + left;
      std::fill(to, to + begin, fill);
      if (end > begin) std::memcpy(to + begin, source + begin, static_cast<std::size_t>(end - begin) * sizeof(T));
      std::fill(to + end, to + out.width, fill);
    }
  }
}

struct CropOptions {
  std::vector<std::int64_t> size{};
  std::int64_t padding = 0;
  double fill = 0;
};

struct RandomCropOptions : CropOptions {
  static Settings settings() {
    return {
        setting("size", &CropOptions::size, "height and width of the piece; empty: as the picture came", {.min = 1}),
        setting("padding", &CropOptions::padding, "pixels put around the picture first", {.min = 0, .max = 4096}),
        setting("fill", &CropOptions::fill, "value of those pixels, 0 to 1 (of 255 in bytes)")};
  }
};

struct CentreCropOptions : CropOptions {
  static Settings settings() {
    return {
        required(setting("size", &CropOptions::size, "height and width of the piece", {.min = 1})),
        setting("fill", &CropOptions::fill, "value outside of a picture that is smaller, 0 to 1 (of 255 in bytes)")};
  }
};

class Crop final : public ImageTransform {
 public:
  Crop(CropOptions options, bool random) : options_(std::move(options)), random_(random) {
    check(options_.size.size() == 2 || (random && options_.size.empty()),
          "[transform] expected a height and a width to crop to, got {} numbers", options_.size.size());
  }
  bool random() const override { return random_; }

 protected:
  TensorType image(TensorType in) const override {
    if (options_.size.empty()) return in;
    const std::int64_t height = options_.size[0], width = options_.size[1];
    check(!random_ || (height <= in.shape[1] + 2 * options_.padding && width <= in.shape[2] + 2 * options_.padding),
          "expected a piece of at most the picture with its padding, got {} × {} of {}", height, width, to_string(in));
    in.shape[1] = height;
    in.shape[2] = width;
    return in;
  }

  void apply_image(const FieldView& in, const FieldView& out, const SampleKey& key) const override {
    const ImageSize from(in), to(out);
    const std::int64_t room_y = from.height + 2 * options_.padding - to.height;
    const std::int64_t room_x = from.width + 2 * options_.padding - to.width;
    std::int64_t top = 0, left = 0;
    if (random_) {
      Draws draws(key);
      top = draws.below(room_y + 1) - options_.padding;
      left = draws.below(room_x + 1) - options_.padding;
    } else {  // centre, rounded down even if the image is smaller
      top = room_y >= 0 ? room_y / 2 : -((1 - room_y) / 2);
      left = room_x >= 0 ? room_x / 2 : -((1 - room_x) / 2);
    }
    with_pixels(in, out, [&]<class T>(const T* source, T* made) {
      copy_window(source, from, made, to, top, left, pixel_value<T>(options_.fill));
    });
  }

 private:
  CropOptions options_;
  bool random_;
};

}  // namespace

void register_transform_crop(TransformKinds& kinds);
void register_transform_crop(TransformKinds& kinds) {
  kinds.add<RandomCropOptions>("random_crop", "A piece of the picture at a random place, padded first",
                               [](const RandomCropOptions& o) { return std::make_shared<const Crop>(o, true); });
  kinds.add<CentreCropOptions>("centre_crop", "The middle of the picture",
                               [](const CentreCropOptions& o) { return std::make_shared<const Crop>(o, false); });
}

}  // namespace starling::data
