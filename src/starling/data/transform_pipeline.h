#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "starling/data/transform.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Transforms one after another: those of a sample first, then those of a batch. Const and safe on any thread; each
// thread that applies it brings a scratch of its own, which grows to what a batch needs and is then used over and over,
// without allocating.
class TransformPipeline {
 public:
  struct Scratch {
    std::vector<std::byte> sample[2];
    std::vector<std::byte> batch[2];
    std::vector<FieldView> in, out;      // of one step
    std::vector<FieldView> from, to;     // of all samples
    std::vector<FieldView> middle;       // between the steps of samples and those of a batch
    std::vector<FieldView> first, last;  // of the sample being made
  };

  TransformPipeline() = default;
  // `fields` are those of a sample of the data set. Throws when a transform cannot change what it would be given,
  // naming the step.
  TransformPipeline(std::vector<TransformStep> steps, std::vector<TensorType> fields);

  bool empty() const { return steps_.empty(); }
  const std::vector<TensorType>& fields() const { return types_.back(); }  // of a sample when all is done
  bool mixes() const { return first_batch_step_ < steps_.size(); }         // whether samples of a batch are mixed

  // Reads `in` (the data set's fields with keys.size() samples before them), writes `out` (fields() likewise), both
  // dense on a CPU and apart. Samples without a step that mixes may be given in any portions; else keys are a whole
  // batch.
  void apply(std::span<const Tensor> in, std::span<const Tensor> out, std::span<const SampleKey> keys,
             Scratch& scratch) const;

 private:
  void apply_to_samples(std::span<const FieldView> in, std::span<const FieldView> out, std::span<const SampleKey> keys,
                        Scratch& scratch) const;
  void apply_to_batch(std::span<const FieldView> in, std::span<const FieldView> out, std::span<const SampleKey> keys,
                      Scratch& scratch) const;

  std::vector<TransformStep> steps_;
  std::vector<std::vector<TensorType>> types_;  // before step i; last: after all
  std::size_t first_batch_step_ = 0;
};

}  // namespace starling
