#include "starling/base/error.h"
#include "starling/base/philox.h"
#include "starling/data/loading/split.h"

namespace starling::data {
namespace {

struct SyntheticOptions : SplitOptions {
  std::int64_t train_samples = 1000;
  std::int64_t test_samples = 200;
  std::vector<std::int64_t> shape{1, 28, 28};
  std::int64_t classes = 10;
  double noise = 1;
  std::int64_t seed = 0;
  static Settings settings() {
    return with_splits(
        {setting("train_samples", &SyntheticOptions::train_samples, "how many to train with", {.min = 1}),
         setting("test_samples", &SyntheticOptions::test_samples, "how many to test with", {.min = 0}),
         setting("shape", &SyntheticOptions::shape, "of a sample", {.min = 1}),
         setting("classes", &SyntheticOptions::classes, "how many; 0: samples without labels", {.min = 0}),
         setting("noise", &SyntheticOptions::noise, "standard deviation around the mean of a class", {.min = 0}),
         setting("seed", &SyntheticOptions::seed, "another one makes other samples", {.min = 0})});
  }
};

// Normal numbers around a random mean per class, generated on access: sample i is a function of the seed and i.
class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const SyntheticOptions& options, std::int64_t size, std::uint64_t part)
      : options_(options), size_(size), part_(part) {
    for (auto dim : options.shape) shape_.push_back(dim);
    check_size(shape_, sizeof(float), "synthetic");
  }

  std::int64_t size() const override { return size_; }
  std::vector<TensorType> fields() const override {
    if (options_.classes == 0) return {{DType::f32, shape_}};
    return {{DType::f32, shape_}, {DType::i64, {}}};
  }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    const auto seed = static_cast<std::uint64_t>(options_.seed);
    const PhiloxStream means({.seed = seed, .step = 0, .site = 1});
    const auto count = static_cast<std::uint64_t>(shape_.numel());
    auto* to = out[0].data<float>();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < 0 || rows[i] >= size_) fail("[synthetic] expected samples below {}, got {}", size_, rows[i]);
      const auto row = static_cast<std::uint64_t>(rows[i]);
      const PhiloxStream stream({.seed = seed, .step = row, .site = 2 + part_});
      const auto classes = static_cast<std::uint64_t>(options_.classes);
      const std::uint64_t label =
          classes == 0 ? 0 : philox_bits(PhiloxStream({.seed = seed, .step = 1, .site = 2 + part_}), row) % classes;
      for (std::uint64_t j = 0; j < count; ++j) {
        const double mean = classes == 0 ? 0 : philox_normal(means, label * count + j);
        *to++ = static_cast<float>(mean + options_.noise * philox_normal(stream, 4 + j));
      }
      if (classes > 0) out[1].data<std::int64_t>()[i] = static_cast<std::int64_t>(label);
    }
  }

 private:
  SyntheticOptions options_;
  Shape shape_;
  std::int64_t size_;
  std::uint64_t part_;
};

DataSplits make(const SyntheticOptions& o) {
  check(!o.shape.empty() && o.shape.size() <= kMaxRank - 1, "[synthetic] expected 1 to {} axes, got {}", kMaxRank - 1,
        o.shape.size());
  DataSplits splits;
  splits.train = std::make_shared<const SyntheticDataset>(o, o.train_samples, 0);
  if (o.test_samples > 0) splits.test = std::make_shared<const SyntheticDataset>(o, o.test_samples, 10);
  splits.classes = o.classes;
  finish_splits(splits, o);
  return splits;
}

}  // namespace

void register_source_synthetic(SourceKinds& kinds);
void register_source_synthetic(SourceKinds& kinds) {
  kinds.add<SyntheticOptions>("synthetic", "Random samples around a mean for each class",
                              [](const SyntheticOptions& o) { return [o] { return make(o); }; });
}

}  // namespace starling::data
