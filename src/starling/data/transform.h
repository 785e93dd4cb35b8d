#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/base/kinds.h"
#include "starling/base/philox.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Decides all random draws for one sample: the same wherever and whenever the sample is made.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // its number in the data set, or its place in a stream
  std::uint64_t stage = 0;  // which transform of the list draws; the pipeline sets it
};

// The random numbers of one sample at one transform, in order. Counter-based: they are a function of the key alone.
class Draws {
 public:
  explicit Draws(const SampleKey& key);
  double uniform();                         // [0, 1)
  double uniform(double low, double high);  // [low, high)
  std::int64_t below(std::int64_t bound);   // [0, bound), bound ≥ 1
  bool chance(double probability) { return uniform() < probability; }
  double normal();
  double beta(double a, double b);  // of the Beta distribution, both above 0

 private:
  double gamma(double shape);

  PhiloxStream stream_;
  std::uint64_t next_;
};

// One field of one sample: dense, on a CPU.
struct FieldView {
  TensorType type{};
  std::byte* data = nullptr;

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// Changes samples on their way to a batch. Const and safe on any thread.
class Transform {
 public:
  virtual ~Transform() = default;
  // What becomes of the fields of a sample; throws when they are not what it can change.
  virtual std::vector<TensorType> fields(std::vector<TensorType> in) const = 0;
  // Reads the fields of one sample and writes them to others of the types fields() gave; the two never overlap.
  virtual void apply(std::span<const FieldView> in, std::span<const FieldView> out, const SampleKey& key) const = 0;
};

// Changes a whole batch, mixing its samples. Const and safe on any thread.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  virtual std::vector<TensorType> fields(std::vector<TensorType> in) const = 0;  // of one sample, as Transform::fields
  // `in` and `out` hold `count` samples a field. `key` is that of the batch's first sample.
  virtual void apply(std::span<const FieldView> in, std::span<const FieldView> out, std::int64_t count,
                     const SampleKey& key) const = 0;
};

// One of the two.
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

// By the names that jobs use; built from the files in data/transforms.
const TransformKinds& transform_kinds();

// The steps of a list in a job: [{name: random_crop, padding: 4}, {name: mixup}], or a bare name for one without
// options. Throws with the place of what is wrong.
std::vector<Chosen<TransformStep>> read_transforms(const ConfigNode& list);

}  // namespace starling
