#include <algorithm>

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/data/transform.h"
#include "starling/tensor/bytes.h"

namespace starling::data {
namespace {

void copy_field(const FieldView& in, const FieldView& out) { copy_bytes(out.data, in.data, bytes_of(in.type)); }

// Converts one field of a sample; the others are copied.
class FieldTransform : public Transform {
 public:
  explicit FieldTransform(std::int64_t field) : field_(static_cast<std::size_t>(field)) {}

  std::vector<TensorType> fields(std::vector<TensorType> in) const final {
    check(field_ < in.size(), "expected a field below {}, got {}", in.size(), field_);
    in[field_] = type(in[field_]);
    return in;
  }
  void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey&) const final {
    for (std::size_t f = 0; f < in.size(); ++f) {
      if (f == field_) {
        convert(in[f], out[f]);
      } else {
        copy_field(in[f], out[f]);
      }
    }
  }

 protected:
  virtual TensorType type(TensorType in) const = 0;
  virtual void convert(const FieldView& in, const FieldView& out) const = 0;

 private:
  std::size_t field_;
};

struct ToFloatOptions {
  std::int64_t field = 0;
  double scale = 0;
  static Settings settings() {
    return {
        setting("field", &ToFloatOptions::field, "which field of the sample", {.min = 0, .max = 63}),
        setting("scale", &ToFloatOptions::scale, "what values are multiplied with; 0: 1/255 for bytes, 1 for others")};
  }
};

class ToFloat final : public FieldTransform {
 public:
  explicit ToFloat(const ToFloatOptions& options) : FieldTransform(options.field), scale_(options.scale) {}

 protected:
  TensorType type(TensorType in) const override {
    in.dtype = DType::f32;
    return in;
  }
  void convert(const FieldView& in, const FieldView& out) const override {
    auto* to = out.as<float>();
    const std::int64_t count = in.type.shape.numel();
    dispatch(in.type.dtype, [&]<class T>() {
      const T* from = in.as<T>();
      const auto scale = static_cast<float>(scale_);
      if (scale_ == 0 && std::is_same_v<T, std::uint8_t>) {
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) / 255.0F;
      } else if (scale_ == 0) {
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
      } else {
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale;
      }
    });
  }

 private:
  double scale_;
};

struct OneHotOptions {
  std::int64_t classes = 0;
  std::int64_t field = 1;
  double smoothing = 0;
  static Settings settings() {
    return {
        required(setting("classes", &OneHotOptions::classes, "how many classes there are", {.min = 1})),
        setting("field", &OneHotOptions::field, "which field of the sample has the labels", {.min = 0, .max = 63}),
        setting("smoothing", &OneHotOptions::smoothing, "share spread evenly over all classes", {.min = 0, .max = 1})};
  }
};

class OneHot final : public FieldTransform {
 public:
  explicit OneHot(const OneHotOptions& options) : FieldTransform(options.field), options_(options) {}

 protected:
  TensorType type(TensorType in) const override {
    check(in.dtype == DType::i64, "expected labels in i64, got {}", to_string(in));
    in.dtype = DType::f32;
    in.shape.push_back(options_.classes);
    return in;
  }
  void convert(const FieldView& in, const FieldView& out) const override {
    auto* to = out.as<float>();
    const std::int64_t count = in.type.shape.numel();
    const auto rest = static_cast<float>(options_.smoothing / static_cast<double>(options_.classes));
    for (std::int64_t i = 0; i < count; ++i, to += options_.classes) {
      const std::int64_t label = in.as<std::int64_t>()[i];
      if (label < 0 || label >= options_.classes) {
        fail("[one_hot] expected labels below {}, got {}", options_.classes, label);
      }
      std::fill_n(to, options_.classes, rest);
      to[label] += static_cast<float>(1 - options_.smoothing);
    }
  }

 private:
  OneHotOptions options_;
};

}  // namespace

void register_transform_convert(TransformKinds& kinds);
void register_transform_convert(TransformKinds& kinds) {
  kinds.add<ToFloatOptions>("to_float", "A field as f32; bytes become 0 to 1",
                            [](const ToFloatOptions& o) { return std::make_shared<const ToFloat>(o); });
  kinds.add<OneHotOptions>("one_hot", "Labels as probabilities",
                           [](const OneHotOptions& o) { return std::make_shared<const OneHot>(o); });
}

}  // namespace starling::data
