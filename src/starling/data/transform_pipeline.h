#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "starling/data/transform.h"
#include "starling/tensor/tensor.h"

namespace starling {

// A sequence of transforms: those of samples first, then those of batches. Const and thread-safe; each thread has its
// own Scratch, which grows to what a batch needs and is then reused without allocating.
class TransformPipeline {
 public:
  struct Scratch {
    std::vector<std::byte> sample[2];
    std::vector<std::byte> batch[2];
    std::vector<FieldView> in, out;      // fields of one step
    std::vector<FieldView> from, to;     // fields of all samples
    std::vector<FieldView> middle;       // between sample transforms and batch transforms
    std::vector<FieldView> first, last;  // fields of the sample being made
  };

  TransformPipeline() = default;
  // `fields` are the types of the data set's samples. Throws if a transform cannot handle its input, naming the step.
  TransformPipeline(std::vector<TransformStep> steps, std::vector<TensorType> fields);

  bool empty() const { return steps_.empty(); }
  const std::vector<TensorType>& fields() const { return types_.back(); }  // of a transformed sample
  bool mixes() const { return first_batch_step_ < steps_.size(); }         // has a batch transform

  // Transforms keys.size() samples from `in` (the data set's fields) to `out` (fields()), both contiguous on the CPU
  // and not overlapping. If mixes(), the samples must be a whole batch; otherwise any part of one.
  void apply(std::span<const Tensor> in, std::span<const Tensor> out, std::span<const SampleKey> keys,
             Scratch& scratch) const;

 private:
  void apply_to_samples(std::span<const FieldView> in, std::span<const FieldView> out, std::span<const SampleKey> keys,
                        Scratch& scratch) const;
  void apply_to_batch(std::span<const FieldView> in, std::span<const FieldView> out, std::span<const SampleKey> keys,
                      Scratch& scratch) const;

  std::vector<TransformStep> steps_;
  std::vector<std::vector<TensorType>> types_;  // types before step i; last: after all steps
  std::size_t first_batch_step_ = 0;
};

}  // namespace starling
