#include "starling/ops/def/apply.h"

#include <algorithm>
#include <typeinfo>

#include "starling/base/error.h"
#include "starling/base/error_text.h"
#include "starling/base/thread/thread_context.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/argument_error.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/interpreter.h"

namespace starling {
namespace {

// True if an interpreter that substituted operands has recorded the call itself.
bool recorded(const TensorList& outputs) {
  for (const auto& output : outputs) {
    if (output.impl()->extra) return true;
  }
  return false;
}

TensorList dense_all(std::span<const Tensor> inputs) {
  TensorList whole;
  for (const auto& input : inputs) whole.push_back(dense(input));
  return whole;
}

bool check_inputs(const OpDef& op, std::span<const Tensor> inputs) {
  bool sparse = false;
  for (const auto& input : inputs) {
    check(input.defined(), "[{}] expected a tensor, got an empty handle", op.name);
    sparse |= input.impl()->row_sparse;
  }
  return sparse;
}

bool any_requires_grad(std::span<const Tensor> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& input) { return input.requires_grad(); });
}

// True if the gradient of this call is that of the simpler ops which the op stands for: fused ops have none of their
// own.
bool differentiates_by_parts(const OpDef& op, std::span<const Tensor> inputs) {
  return !op.gradient && op.decompose && !op.stateful && grad_enabled() && any_requires_grad(inputs);
}

TensorList apply_parts(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  const Types types = types_of(inputs);
  infer(op, {types.data(), types.size()}, attrs);  // refuses what the op itself would refuse, by its name
  return op.decompose(inputs, attrs);
}

}  // namespace

bool wants_record(const OpDef& op, std::span<const Tensor> inputs) {
  return op.gradient && grad_enabled() && any_requires_grad(inputs);
}

bool grad_enabled() { return thread_context().grad; }
GradMode::GradMode(bool enabled) : before_(grad_enabled()) { thread_context().grad = enabled; }
GradMode::~GradMode() { thread_context().grad = before_; }

TensorList apply(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  if (check_inputs(op, inputs)) [[unlikely]] {
    const TensorList whole = dense_all(inputs);
    return apply(op, {whole.data(), whole.size()}, attrs);
  }
  if (differentiates_by_parts(op, inputs)) [[unlikely]]
    return apply_parts(op, inputs, attrs);
  TensorList outputs = current_interpreter().apply(op, inputs, attrs);
  if (wants_record(op, inputs) && !recorded(outputs)) record(op, inputs, {outputs.data(), outputs.size()}, attrs);
  return outputs;
}

void apply_into(const OpDef& op, std::span<const Tensor> inputs, const Attrs& attrs, std::span<const Tensor> targets) {
  if (check_inputs(op, inputs)) [[unlikely]] {
    const TensorList whole = dense_all(inputs);
    return current_interpreter().apply_into(op, {whole.data(), whole.size()}, attrs, targets);
  }
  current_interpreter().apply_into(op, inputs, attrs, targets);
}

TensorList call(std::string_view name, std::span<const Tensor> inputs,
                std::span<const std::pair<std::string, std::string>> attrs) {
  const OpDef& op = find_op(name);
  Attrs typed = Attrs::defaults(*op.attrs);
  for (const auto& [key, text] : attrs) typed.set(key, text);
  return apply(op, inputs, typed);
}

namespace {

Types checked_infer(const OpDef& op, std::span<const TensorType> in, const Attrs& attrs) {
  const int count = static_cast<int>(in.size());
  check(count >= op.min_inputs() && (op.max_inputs() < 0 || count <= op.max_inputs()),
        "[{}] expected {} inputs, got {}", op.name,
        op.max_inputs() < 0 ? fmt::format("at least {}", op.min_inputs())
                            : fmt::format("{} to {}", op.min_inputs(), op.max_inputs()),
        count);
  if (&attrs.type() != op.attrs) [[unlikely]]
    fail("[{}] expected its own attributes, got others", op.name);
  Types out = op.infer({op, in, attrs});
  for (const auto& type : out) check_size(type.shape, size_of(type.dtype), op.name.c_str());
  return out;
}

}  // namespace

// A refusal here means that the operands of the op are wrong.
Types infer(const OpDef& op, std::span<const TensorType> in, const Attrs& attrs) {
  try {
    return checked_infer(op, in, attrs);
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;
    throw ArgumentError(without_rank(error.what()));
  }
}

Types types_of(std::span<const Tensor> tensors) {
  Types types;
  types.reserve(tensors.size());
  for (const auto& t : tensors) types.push_back(t.type());
  return types;
}

}  // namespace starling
