#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "starling/base/kinds.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Decides all random draws for one sample: the same wherever and whenever the sample is made.
struct SampleKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
};

// Changes samples on their way to a batch. Const and safe on any thread.
class Transform {
 public:
  virtual ~Transform() = default;
  // What becomes of the fields of a sample; throws when they are not what it can change.
  virtual std::vector<TensorType> fields(std::vector<TensorType> in) const = 0;
  // Reads the fields of one sample (dense, on a CPU) and writes them to others of the types fields() gave.
  virtual void apply(std::span<const Tensor> in, std::span<const Tensor> out, const SampleKey& key) const = 0;
};

using TransformKinds = Kinds<std::shared_ptr<const Transform>>;

// By the names that jobs use; built from the files in data/transforms.
const TransformKinds& transform_kinds();

}  // namespace starling
