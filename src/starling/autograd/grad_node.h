#pragma once

#include <memory>
#include <vector>

#include "starling/ops/def/op_def.h"

namespace starling {

// Tensor saved for the backward pass: with its data if the gradient reads it, otherwise only its type. restore() checks
// that its memory was not written since. An output is saved without its history, to avoid a reference cycle.
class SavedTensor {
 public:
  SavedTensor() = default;
  static SavedTensor input(const Tensor& tensor, bool with_data);
  static SavedTensor output(const Tensor& tensor, bool with_data, int index);
  Tensor restore(const OpDef& op, GradNode* self) const;

 private:
  Tensor tensor_;
  int pinned_ = -1;  // traced variables: the value at the time of saving
  int output_ = -1;  // output index in the owning node; -1 for an input
  bool checked_ = false;
  std::uint32_t version_ = 0;
};

// Node of the autograd tape: the op, its operands and, per input, where its gradient goes next.
class GradNode final : public RefCounted, public Pooled<GradNode> {
 public:
  struct Edge {
    Ref<GradNode> node;  // null for a leaf
    int output = 0;
    Ref<TensorImpl> leaf;  // set for a leaf, whose grad() slot receives the gradient
  };

  GradNode(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Attrs& attrs,
           std::shared_ptr<const OpDef> kept = nullptr);
  ~GradNode() override;

  const OpDef& op() const { return op_; }
  std::uint64_t sequence() const { return sequence_; }
  std::span<const Edge> edges() const { return {edges_.data(), edges_.size()}; }
  const TensorType& output_type(std::size_t i) const { return output_types_[i]; }
  std::size_t outputs() const { return output_types_.size(); }
  int traced_value() const { return traced_value_; }  // value id of the first output; -1 when eager

  TensorList backward(std::span<const Tensor> grads) const;

  // Hooks of one output; created on first use.
  std::shared_ptr<GradHooks> hooks_of(int output);
  struct OutputHooks {
    int output;
    std::shared_ptr<GradHooks> hooks;
  };
  const std::vector<OutputHooks>* hooks() const { return rare_ ? &rare_->hooks : nullptr; }  // null if there are none

 private:
  const OpDef& op_;
  struct Rare {
    std::shared_ptr<const OpDef> kept;  // owner of op_ if it was made for this call
    std::vector<OutputHooks> hooks;
  };
  std::unique_ptr<Rare> rare_;
  Attrs attrs_;
  SmallVector<SavedTensor, 4> inputs_;
  SmallVector<SavedTensor, 2> outputs_;
  SmallVector<Edge, 4> edges_;
  SmallVector<TensorType, 2> output_types_;
  std::uint64_t needed_ = 0;
  std::uint64_t sequence_;
  int traced_value_ = -1;
};

// Records `outputs` as made from `inputs` by an op that exists for this call only.
void record(std::shared_ptr<const OpDef> op, std::span<const Tensor> inputs, std::span<Tensor> outputs);

// Sequence number of the next node; all nodes made so far have smaller ones.
std::uint64_t next_grad_sequence();

}  // namespace starling
