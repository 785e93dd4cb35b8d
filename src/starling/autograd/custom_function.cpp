#include "starling/autograd/custom_function.h"

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/apply.h"

namespace starling {

void FunctionContext::save(std::span<const Tensor> tensors) {
  for (const auto& tensor : tensors) {
    check(tensor.defined(), "[custom_function] expected tensors to save, got an empty handle");
    kept_.push_back({tensor, {}, -1});
  }
}

// State of one call, owned by the op that the tape keeps.
class CustomCall {
 public:
  explicit CustomCall(CustomFunction function) : function_(std::move(function)) {}

  TensorList forward(std::span<const Tensor> inputs) {
    const NoGrad off;
    TensorList outputs = function_.forward(context_, inputs);
    for (auto& output : outputs) {
      check(output.defined(), "[{}] expected forward to return tensors, got an empty handle", function_.name);
      const Tensor own = output.detach();  // an input returned as output must not be marked as made here
      for (auto& kept : context_.kept_) {
        if (same(kept.tensor, output)) kept.output = static_cast<int>(&output - outputs.data());
      }
      output = own;
    }
    for (const auto& input : inputs) keep_as_input(input);
    return outputs;
  }

  // Inputs and inner values are saved by the context; outputs by the node, which avoids a reference cycle.
  Saves seal() {
    Saves saves = kSavesNothing;
    for (auto& kept : context_.kept_) {
      if (kept.output >= 0)
        saves = kSavesOutputs;
      else
        kept.saved = SavedTensor::input(kept.tensor, true);
      kept.tensor = Tensor();
    }
    return saves;
  }

  TensorList backward(const GradCall& c) {
    context_.restored_ = {};
    for (const auto& kept : context_.kept_) {
      context_.restored_.push_back(kept.output >= 0 ? c.out[static_cast<std::size_t>(kept.output)]
                                                    : kept.saved.restore(c.op, nullptr));
    }
    context_.needed_ = c.needed;
    TensorList grads;
    for (std::size_t i = 0; i < c.grads.size(); ++i) {
      grads.push_back(c.grads[i].defined() ? c.grads[i] : full(c.out[i].shape(), 0.0, c.out[i].dtype()));
    }
    TensorList result = function_.backward(context_, {grads.data(), grads.size()});
    context_.restored_ = {};
    check(result.size() == c.in.size(), "[{}] expected backward to return {} gradients, got {}", function_.name,
          c.in.size(), result.size());
    return result;
  }

 private:
  void keep_as_input(const Tensor& input) {
    for (auto& kept : context_.kept_) {
      if (same(kept.tensor, input)) kept.output = -1;
    }
  }

  CustomFunction function_;
  FunctionContext context_;
};

TensorList custom_function(std::span<const Tensor> inputs, const CustomFunction& function) {
  check(function.forward && function.backward, "[custom_function] expected a forward and a backward function");
  TensorList dense_inputs;
  for (const auto& input : inputs) {
    check(input.defined(), "[{}] expected tensors, got an empty handle", function.name);
    dense_inputs.push_back(dense(input));
  }
  const std::span<const Tensor> in(dense_inputs.data(), dense_inputs.size());
  const auto call = std::make_shared<CustomCall>(function);
  TensorList outputs = call->forward(in);
  auto op = std::make_shared<OpDef>();
  op->name = function.name;
  op->gradient = [call](const GradCall& c) { return call->backward(c); };
  if (!wants_record(*op, in)) return outputs;
  op->saves = call->seal();
  record(std::move(op), in, {outputs.data(), outputs.size()});
  return outputs;
}

}  // namespace starling
