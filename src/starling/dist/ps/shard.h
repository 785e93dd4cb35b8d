#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/dist/ps/gate.h"
#include "starling/dist/ps/keys.h"
#include "starling/dist/ps/norm_rule.h"
#include "starling/dist/ps/vectors.h"
#include "starling/optim/optimizer_kinds.h"
#include "starling/runtime/compile.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist::ps {

// Weights of one key and their optimizer. Steps run as a compiled program of the update ops, or eagerly for rows, whose
// number changes from push to push. Used by one thread, always the same one once steps are made.
class Shard {
 public:
  // `optimizer` makes the optimizer of the weights; null: a step adds the pushed values to them.
  Shard(const ServedTensor& tensor, const TensorType& piece, const optim::OptimizerMaker& optimizer);

  const TensorType& type() const { return type_; }
  std::int64_t version() const { return version_; }  // steps and puts so far; 0: no weights yet
  bool ready() const { return version_ > 0; }

  void put(const Bytes& values);
  // One step with the mean of the pushes, weighted by their samples.
  void step(const Step& pushes);
  // A step by norms of the whole tensor, of which this is a piece: its part of the sums, then the step.
  bool needs_norms() const { return norm_rule_ != nullptr; }
  NormSums measure(const Step& pushes);
  void step(const Step& pushes, const NormSums& whole);

  // Weights as they are now, without a copy: a later step writes elsewhere while the bytes returned are held.
  Bytes weights();
  // Copies of rows, given by their numbers in this key.
  Bytes rows(const Bytes& numbers);

  // Runs a command over vectors (vectors.h) on this piece; returns its term of the result, 0 where there is none.
  double command(VectorOp op, int a, int b, double alpha);
  // Adds a gradient to a vector, each portion once; false: it was there.
  bool add_portion(int vector, std::int64_t portion, const Push& push);

  // Weights and optimizer state, by the names they have in checkpoints.
  std::vector<NamedTensor> state() const;
  void put_state(std::size_t place, const Bytes& values);

  // Checks sizes that came from a peer; the failure says what was expected.
  Result<void> accepts(const Bytes& rows, const Bytes& values) const;

 private:
  void part();  // copies the weights before they change, if weights() has given them out and they are still held
  void apply(const Tensor& gradient);
  Tensor tensor_over(const Bytes& bytes, const TensorType& type) const;
  Tensor gradient_of(const Push& push) const;
  Tensor mean_of(const Step& pushes) const;
  Tensor rows_of_mean(const Step& pushes, double all) const;
  void add(const Step& pushes);
  void take_rate(const Step& pushes);

  TensorType type_;
  Tensor weights_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<CompiledFunction> program_;
  std::unique_ptr<NormRule> norm_rule_;  // null: none needed, or the tensor is whole
  std::weak_ptr<const void> snapshot_;
  KeyVectors vectors_;
  double lr_ = -1;
  std::int64_t version_ = 0;
};

}  // namespace starling::dist::ps
