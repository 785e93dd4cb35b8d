#include "starling/autograd/replay.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::autograd {
namespace {

// Several handles may hold one value: the same tensor, or the same output of the same node.
bool same_value(const Tensor& a, const Tensor& b) {
  if (same(a, b)) return true;
  const auto &x = a.impl()->extra, &y = b.impl()->extra;
  return x && y && x->node && x->node == y->node && x->output == y->output;
}

bool same_memory(const TensorImpl& a, const TensorImpl& b) {
  return a.storage && a.storage == b.storage && a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape &&
         a.strides == b.strides;
}

}  // namespace

void Surroundings::add_differentiable(const Tensor& tensor) {
  const auto known = [&](const Outside& other) { return same_value(tensor, other.original); };
  if (!tensor.requires_grad() || std::any_of(differentiable.begin(), differentiable.end(), known)) return;
  differentiable.push_back({tensor, SavedTensor::input(tensor, true)});
}

void Surroundings::check_flags() const {
  for (const auto& [flag, value] : flags) {
    check(*flag == value, "[recompute] expected {} mode as in the first run, got {} mode",
          value ? "training" : "evaluation", value ? "evaluation" : "training");
  }
}

TensorList Watcher::apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  for (const auto& input : inputs) read(input);
  TensorList outputs = below_.apply(op, inputs, attrs);
  for (const auto& output : outputs) {
    const Storage* storage = output.impl()->storage.get();
    if (storage && !outside_.count(storage)) made_.insert(storage);
  }
  return outputs;
}

void Watcher::apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                         std::span<const Tensor> targets) {
  for (const auto& input : inputs) read(input);
  // A tensor read before without a copy is about to be written: copy it now.
  for (auto& outside : into_.read) {
    if (!outside.guarded || outside.original.requires_grad() || below_.pin(outside.original) >= 0) continue;
    for (const auto& target : targets) {
      if (!(target.impl()->storage == outside.original.impl()->storage)) continue;
      outside.saved = SavedTensor::input(copy_of(outside.original), true);
      outside.guarded = false;
      break;
    }
  }
  below_.apply_into(op, inputs, attrs, targets);
}

void Watcher::depends_on(const std::shared_ptr<const bool>& flag) {
  into_.flags.emplace_back(flag, *flag);
  below_.depends_on(flag);
}

void Watcher::read(const Tensor& tensor) {
  if (tensor.requires_grad()) return into_.add_differentiable(tensor);
  if (tensor.traced() || op::is_constant(tensor)) return;
  const Storage* storage = tensor.impl()->storage.get();
  if (made_.count(storage) || !known_.try_emplace(tensor.impl(), into_.read.size()).second) return;
  outside_.insert(storage);
  const bool copies = tensor.is_variable() && below_.pin(tensor) < 0;
  into_.read.push_back({tensor, SavedTensor::input(copies ? copy_of(tensor) : tensor, true), !copies});
}

// The copy goes through the interpreter below, which may be a replay with substitutes of its own.
Tensor Watcher::copy_of(const Tensor& tensor) {
  Tensor now = below_.apply(named_op<"identity">(), {&tensor, 1}, op::NoAttrs{})[0];
  if (!(now.impl()->storage == tensor.impl()->storage)) return now;
  Tensor copy = empty(tensor.shape(), tensor.dtype(), tensor.device());
  const Tensor target[] = {copy};
  eager_interpreter().apply_into(named_op<"identity">(), {&tensor, 1}, op::NoAttrs{}, target);
  return copy;
}

void Replay::put(const Tensor& original, Tensor value) { instead_[original.impl()] = {original, std::move(value)}; }

const Tensor* Replay::find(const Tensor& tensor) const {
  const auto it = instead_.find(tensor.impl());
  if (it != instead_.end()) return &it->second.value;
  if (tensor.traced() || tensor.requires_grad()) return nullptr;
  // Same memory under another handle: a detached variable.
  for (const auto& [impl, entry] : instead_) {
    if (same_memory(*impl, *tensor.impl())) return &entry.value;
  }
  return nullptr;
}

TensorList Replay::replaced(std::span<const Tensor> inputs) const {
  TensorList out;
  for (const auto& input : inputs) {
    const Tensor* value = find(input);
    out.push_back(value ? *value : input);
  }
  return out;
}

TensorList Replay::apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  const TensorList in = replaced(inputs);
  const std::span<const Tensor> span(in.data(), in.size());
  TensorList outputs = below_.apply(op, span, attrs);
  const bool fresh = outputs.empty() || !outputs[0].impl()->extra;
  if (fresh && wants_record(op, span)) record(op, span, {outputs.data(), outputs.size()}, attrs);
  return outputs;
}

void Replay::apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs,
                        std::span<const Tensor> targets) {
  const TensorList in = replaced(inputs);
  const TensorList outputs = below_.apply(op, {in.data(), in.size()}, attrs);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    put(targets[i], outputs[i]);
    // Other handles to this memory see the write as well.
    for (auto& [impl, entry] : instead_) {
      if (same_memory(*impl, *targets[i].impl())) entry.value = outputs[i];
    }
  }
}

int Replay::pin(const Tensor& tensor) {
  const Tensor* value = find(tensor);
  if (!value) return below_.pin(tensor);
  return value->traced() ? value->impl()->value : below_.pin(*value);
}

}  // namespace starling::autograd
