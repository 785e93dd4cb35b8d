#pragma once

#include <vector>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/data/transform.h"
#include "starling/tensor/bytes.h"

namespace starling::data {

// A transform of the image in a sample's first field, [channels, height, width] of u8 or f32; other fields are copied.
class ImageTransform : public Transform {
 public:
  std::vector<TensorType> fields(std::vector<TensorType> in) const final {
    check(!in.empty() && in[0].shape.rank() == 3 && (in[0].dtype == DType::u8 || in[0].dtype == DType::f32),
          "expected a picture of [channels, height, width] in u8 or f32 as the first field, got {}",
          in.empty() ? "none" : to_string(in[0]));
    in[0] = image(in[0]);
    return in;
  }

  void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey& key) const final {
    for (std::size_t f = 1; f < in.size(); ++f) {
      copy_bytes(out[f].data, in[f].data, bytes_of(in[f].type));
    }
    apply_image(in[0], out[0], key);
  }

 protected:
  virtual TensorType image(TensorType in) const { return in; }
  virtual void apply_image(const FieldView& in, const FieldView& out, const SampleKey& key) const = 0;
};

// Dimensions of an image field.
struct ImageSize {
  std::int64_t channels, height, width;
  explicit ImageSize(const FieldView& field)
      : channels(field.type.shape[0]), height(field.type.shape[1]), width(field.type.shape[2]) {}
  std::int64_t numel() const { return channels * height * width; }
};

// Calls f(const T* from, T* to) with the pixel type T of the two images: u8 or f32.
template <class F>
void with_pixels(const FieldView& in, const FieldView& out, F&& f) {
  if (in.type.dtype == DType::u8) {
    f(static_cast<const std::uint8_t*>(in.as<std::uint8_t>()), out.as<std::uint8_t>());
  } else {
    f(static_cast<const float*>(in.as<float>()), out.as<float>());
  }
}

// A pixel value from a number between 0 and 1: unchanged for floats, scaled to 0…255 for u8.
template <class T>
T pixel_value(double share) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return static_cast<T>(share <= 0 ? 0 : share >= 1 ? 255 : share * 255 + 0.5);
  } else {
    return static_cast<T>(share);
  }
}

}  // namespace starling::data
