#include <array>

#include "starling/data/pictures/image_transform.h"

namespace starling::data {
namespace {

struct NormaliseOptions {
  std::vector<double> mean{0.5};
  std::vector<double> std{0.5};
  static Settings settings() {
    return {setting("mean", &NormaliseOptions::mean, "of each channel, or one for all, in values of 0 to 1"),
            setting("std", &NormaliseOptions::std, "standard deviation likewise", {.min = 1e-12})};
  }
};

// (value - mean) / std of each channel, as f32; bytes are divided by 255 first.
class Normalise final : public ImageTransform {
 public:
  explicit Normalise(NormaliseOptions options) : options_(std::move(options)) {
    check(!options_.mean.empty() && !options_.std.empty(), "[transform] expected a mean and a std, got none");
  }

 protected:
  TensorType image(TensorType in) const override {
    const auto fits = [&](const std::vector<double>& list) {
      return list.size() == 1 || static_cast<std::int64_t>(list.size()) == in.shape[0];
    };
    check(fits(options_.mean) && fits(options_.std), "expected a mean and a std for each of {} channels, got {} and {}",
          in.shape[0], options_.mean.size(), options_.std.size());
    in.dtype = DType::f32;
    return in;
  }

  void apply_image(const FieldView& in, const FieldView& out, const SampleKey&) const override {
    const ImageSize size(in);
    const std::int64_t plane = size.height * size.width;
    auto* to = out.as<float>();
    for (std::int64_t c = 0; c < size.channels; ++c, to += plane) {
      const auto mean = static_cast<float>(of(options_.mean, c)), std = static_cast<float>(of(options_.std, c));
      if (in.type.dtype == DType::f32) {
        const float* from = in.as<float>() + c * plane;
        for (std::int64_t i = 0; i < plane; ++i) to[i] = (from[i] - mean) / std;
        continue;
      }
      std::array<float, 256> table;
      for (std::size_t i = 0; i < table.size(); ++i) table[i] = (static_cast<float>(i) / 255.0F - mean) / std;
      const std::uint8_t* from = in.as<std::uint8_t>() + c * plane;
      for (std::int64_t i = 0; i < plane; ++i) to[i] = table[from[i]];
    }
  }

 private:
  static double of(const std::vector<double>& list, std::int64_t channel) {
    return list.size() == 1 ? list[0] : list[static_cast<std::size_t>(channel)];
  }
  NormaliseOptions options_;
};

}  // namespace

void register_transform_normalise(TransformKinds& kinds);
void register_transform_normalise(TransformKinds& kinds) {
  kinds.add<NormaliseOptions>("normalise",
                              "(pixel - mean) / std of each channel, as f32; bytes are scaled to 0…1 first",
                              [](const NormaliseOptions& o) { return std::make_shared<const Normalise>(o); });
}

}  // namespace starling::data
