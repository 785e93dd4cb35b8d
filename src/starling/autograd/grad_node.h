#pragma once

#include <memory>
#include <vector>

#include "starling/ops/op_def.h"

namespace starling {

// A tensor kept for the backward pass: itself when the gradient reads it, otherwise only its type. Restoring it checks
// that nobody has written to its memory since. An output is kept without its history, which would make a cycle.
class SavedTensor {
 public:
  SavedTensor() = default;
  static SavedTensor input(const Tensor& tensor, bool with_data);
  static SavedTensor output(const Tensor& tensor, bool with_data, int index);
  Tensor restore(const OpDef& op, GradNode* self) const;

 private:
  Tensor tensor_;
  int pinned_ = -1;  // a variable being traced: the value it had
  int output_ = -1;  // which output of the node that holds this; -1 for an input
  bool checked_ = false;
  std::uint32_t version_ = 0;
};

// How some tensors were made: the op, its operands and, per input, where its gradient goes next.
class GradNode final : public RefCounted, public Pooled<GradNode> {
 public:
  struct Edge {
    Ref<GradNode> node;  // null for a leaf
    int output = 0;
    Ref<TensorImpl> leaf;  // set where the gradient is kept
  };

  GradNode(const OpDef& op, std::span<const Tensor> inputs, std::span<Tensor> outputs, const Attrs& attrs,
           std::shared_ptr<const OpDef> kept = nullptr);
  ~GradNode() override;

  const OpDef& op() const { return op_; }
  std::uint64_t sequence() const { return sequence_; }
  std::span<const Edge> edges() const { return {edges_.data(), edges_.size()}; }
  const TensorType& output_type(std::size_t i) const { return output_types_[i]; }
  std::size_t outputs() const { return output_types_.size(); }
  int traced_value() const { return traced_value_; }  // of the first output, -1 when eager

  TensorList backward(std::span<const Tensor> grads) const;

  // The hooks of one output; made when first asked for.
  std::shared_ptr<GradHooks> hooks_of(int output);
  struct OutputHooks {
    int output;
    std::shared_ptr<GradHooks> hooks;
  };
  const std::vector<OutputHooks>* hooks() const { return rare_ ? &rare_->hooks : nullptr; }  // null: none

 private:
  const OpDef& op_;
  struct Rare {
    std::shared_ptr<const OpDef> kept;  // set where op_ was made for this call
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

// Marks `outputs` as made from `inputs` by an op that exists for this call only.
void record(std::shared_ptr<const OpDef> op, std::span<const Tensor> inputs, std::span<Tensor> outputs);

// The number the next node will get: all nodes made so far have smaller ones.
std::uint64_t next_grad_sequence();

}  // namespace starling
