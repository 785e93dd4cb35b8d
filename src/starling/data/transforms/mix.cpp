#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "starling/base/error.h"
#include "starling/data/transform.h"

namespace starling::data {
namespace {

struct MixOptions {
  double alpha = 0.2;
  std::int64_t classes = 0;
};

struct MixupOptions : MixOptions {
  static Settings settings() {
    return {
        setting("alpha", &MixOptions::alpha, "shape of the Beta distribution that weights come from",
                {.min = 1e-3, .max = 1000}),
        setting("classes", &MixOptions::classes, "of integer labels; 0: labels are probabilities already", {.min = 0})};
  }
};

struct CutmixOptions : MixOptions {
  CutmixOptions() { alpha = 1; }
  static Settings settings() { return MixupOptions::settings(); }
};

// Base of mixup and cutmix: a partner for each sample of the batch, one weight for all, and labels as weighted means of
// probabilities.
class Mix : public BatchTransform {
 public:
  explicit Mix(const MixOptions& options) : options_(options) {}

  std::vector<TensorType> fields(std::vector<TensorType> in) const override {
    check(in.size() == 2 && in[0].dtype == DType::f32,
          "expected samples of f32 and their labels, got {} fields{} (add to_float to data.transforms)", in.size(),
          in.empty() ? "" : ", the first " + to_string(in[0]));
    if (options_.classes > 0) {
      check(in[1].dtype == DType::i64 && in[1].shape.empty(), "expected one label of i64 a sample, got {}",
            to_string(in[1]));
      in[1] = {DType::f32, {options_.classes}};
    }
    check(in[1].dtype == DType::f32 && in[1].shape.rank() == 1,
          "expected labels as probabilities, got {} (write their number, as classes: 10, in this transform)",
          to_string(in[1]));
    return in;
  }

  void apply(std::span<const FieldView> in, std::span<const FieldView> out, std::int64_t count,
             const SampleKey& key) const override {
    Draws draws(key);
    const double weight = draws.beta(options_.alpha, options_.alpha);
    thread_local std::vector<std::int64_t> partner;
    partner.resize(static_cast<std::size_t>(count));
    std::iota(partner.begin(), partner.end(), 0);
    for (std::int64_t i = count - 1; i > 0; --i) {
      std::swap(partner[static_cast<std::size_t>(i)], partner[static_cast<std::size_t>(draws.below(i + 1))]);
    }
    const double kept = mix(in[0], out[0], partner, weight, draws);
    mix_labels(in[1], out[1], partner, static_cast<float>(kept));
  }

 protected:
  // Mixes the samples and returns the weight of the original in each.
  virtual double mix(const FieldView& in, const FieldView& out, const std::vector<std::int64_t>& partner, double weight,
                     Draws& draws) const = 0;

 private:
  void mix_labels(const FieldView& in, const FieldView& out, const std::vector<std::int64_t>& partner,
                  float kept) const {
    const std::int64_t classes = out.type.shape[0];
    const auto add = [&](std::size_t sample, float weight, float* to) {
      if (in.type.dtype == DType::f32) {
        const float* from = in.as<float>() + static_cast<std::int64_t>(sample) * classes;
        for (std::int64_t c = 0; c < classes; ++c) to[c] += weight * from[c];
        return;
      }
      const std::int64_t label = in.as<std::int64_t>()[sample];
      if (label < 0 || label >= classes) fail("[mix] expected labels below {}, got {}", classes, label);
      to[label] += weight;
    };
    for (std::size_t i = 0; i < partner.size(); ++i) {
      float* to = out.as<float>() + static_cast<std::int64_t>(i) * classes;
      std::fill_n(to, classes, 0.0F);
      add(i, kept, to);
      add(static_cast<std::size_t>(partner[i]), 1 - kept, to);
    }
  }

  MixOptions options_;
};

// Zhang et al. 2017: weighted means of two samples.
class Mixup final : public Mix {
 public:
  using Mix::Mix;

 protected:
  double mix(const FieldView& in, const FieldView& out, const std::vector<std::int64_t>& partner, double weight,
             Draws&) const override {
    const std::int64_t size = in.type.shape.numel();
    const auto own = static_cast<float>(weight);
    for (std::size_t i = 0; i < partner.size(); ++i) {
      const float* a = in.as<float>() + static_cast<std::int64_t>(i) * size;
      const float* b = in.as<float>() + partner[i] * size;
      float* to = out.as<float>() + static_cast<std::int64_t>(i) * size;
      for (std::int64_t j = 0; j < size; ++j) to[j] = own * a[j] + (1 - own) * b[j];
    }
    return own;
  }
};

// Yun et al. 2019: a rectangle of the partner's image pasted over the sample's.
class Cutmix final : public Mix {
 public:
  using Mix::Mix;

  std::vector<TensorType> fields(std::vector<TensorType> in) const override {
    check(!in.empty() && in[0].shape.rank() == 3, "expected pictures of [channels, height, width], got {}",
          in.empty() ? "none" : to_string(in[0]));
    return Mix::fields(std::move(in));
  }

 protected:
  double mix(const FieldView& in, const FieldView& out, const std::vector<std::int64_t>& partner, double weight,
             Draws& draws) const override {
    const std::int64_t channels = in.type.shape[0], height = in.type.shape[1], width = in.type.shape[2];
    const double side = std::sqrt(1 - weight);
    const auto cut_y = static_cast<std::int64_t>(static_cast<double>(height) * side);
    const auto cut_x = static_cast<std::int64_t>(static_cast<double>(width) * side);
    const std::int64_t y = draws.below(height), x = draws.below(width);
    const std::int64_t top = std::max<std::int64_t>(y - cut_y / 2, 0), bottom = std::min(y + (cut_y + 1) / 2, height);
    const std::int64_t left = std::max<std::int64_t>(x - cut_x / 2, 0), right = std::min(x + (cut_x + 1) / 2, width);
    const std::int64_t size = channels * height * width;
    for (std::size_t i = 0; i < partner.size(); ++i) {
      const float* other = in.as<float>() + partner[i] * size;
      float* to = out.as<float>() + static_cast<std::int64_t>(i) * size;
      std::copy_n(in.as<float>() + static_cast<std::int64_t>(i) * size, size, to);
      for (std::int64_t row = 0; row < channels * height; ++row) {
        const std::int64_t at = row % height;
        if (at < top || at >= bottom || right <= left) continue;
        std::copy(other + row * width + left, other + row * width + right, to + row * width + left);
      }
    }
    const std::int64_t cut = std::max<std::int64_t>(0, bottom - top) * std::max<std::int64_t>(0, right - left);
    return 1 - static_cast<double>(cut) / static_cast<double>(height * width);
  }
};

}  // namespace

void register_transform_mix(TransformKinds& kinds);
void register_transform_mix(TransformKinds& kinds) {
  kinds.add<MixupOptions>("mixup", "Weighted means of two samples of a batch and of their labels",
                          [](const MixupOptions& o) { return std::make_shared<const Mixup>(o); });
  kinds.add<CutmixOptions>("cutmix", "A rectangle of another picture of the batch; labels weighted by area",
                           [](const CutmixOptions& o) { return std::make_shared<const Cutmix>(o); });
}

}  // namespace starling::data
