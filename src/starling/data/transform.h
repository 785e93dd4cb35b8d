#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/base/config/kinds.h"
#include "starling/base/philox.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Key of all random draws for one sample: the same wherever and whenever the sample is made.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // index in the data set, or position in the stream
  std::uint64_t stage = 0;  // index of the transform; set by the pipeline
};

// Random numbers of one sample in one transform. Counter-based: a function of the key alone.
class Draws {
 public:
  explicit Draws(const SampleKey& key);
  double uniform();                         // [0, 1)
  double uniform(double low, double high);  // [low, high)
  std::int64_t below(std::int64_t bound);   // [0, bound), bound ≥ 1
  bool chance(double probability) { return uniform() < probability; }
  double normal();
  double beta(double a, double b);  // Beta distribution; a, b > 0

 private:
  double gamma(double shape);

  PhiloxStream stream_;
  std::uint64_t next_;
};

// One field of one sample, contiguous on the CPU.
struct FieldView {
  TensorType type{};
  std::byte* data = nullptr;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// A transform of single samples. Const and thread-safe.
class Transform {
 public:
  virtual ~Transform() = default;
  // Field types after the transform; throws if it cannot handle the given ones.
  virtual std::vector<TensorType> fields(std::vector<TensorType> in) const = 0;
  // Transforms one sample. `out` has the types that fields() returned; `in` and `out` never overlap.
  virtual void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey& key) const = 0;
  // True if the result depends on random draws: augmentation, which predictions leave out.
  virtual bool random() const { return false; }
};

// A transform of whole batches that mixes samples (mixup, cutmix). Const and thread-safe.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  virtual std::vector<TensorType> fields(std::vector<TensorType> in) const = 0;  // as Transform::fields
  // `in` and `out` hold `count` samples per field. `key` is that of the batch's first sample.
  virtual void apply(std::span<const FieldView> in, std::span<const FieldView> out, std::int64_t count,
                     const SampleKey& key) const = 0;
};

// A transform of samples or of batches; one of the two pointers is set.
struct TransformStep {
  std::shared_ptr<const Transform> sample{};
  std::shared_ptr<const BatchTransform> batch{};

  TransformStep() = default;
  template <class T>
  TransformStep(std::shared_ptr<T> step) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_base_of_v<BatchTransform, T>) {
      batch = std::move(step);
    } else {
      sample = std::move(step);
    }
  }
};

using TransformKinds = Kinds<TransformStep>;

// Transforms by their names in job files; built from the files in data/transforms.
const TransformKinds& transform_kinds();

// Reads a list of transforms from a job: [{name: random_crop, padding: 4}, {name: mixup}], or a bare name for one
// without options. Throws with the location of an error.
std::vector<Chosen<TransformStep>> read_transforms(const ConfigNode& list);

}  // namespace starling
