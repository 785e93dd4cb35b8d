#include "starling/graph/backward_trace.h"

#include "starling/autograd/autograd.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"

namespace starling::graph {

BackwardTrace::BackwardTrace(const Body& body)
    : create_graph_(grad_enabled()),
      from_(*body.history),
      made_(std::make_shared<BodyHistory>(*body.history)),
      captured_(made_->tracer.captures.size()) {
  made_->tracer.set_outer(current_interpreter());
}

TensorList BackwardTrace::inputs(const Types& types) {
  TensorList made;
  for (const auto& type : types) {
    made.push_back(made_->tracer.input(type, kCpu));
    if (create_graph_ && is_float(type.dtype)) made.back().set_requires_grad();
  }
  return made;
}

TensorList BackwardTrace::pull(std::span<const std::size_t> outputs, std::span<const Tensor> seeds,
                               const TensorList& wanted) {
  const InterpreterScope scope(made_->tracer);
  TensorList used;
  for (std::size_t i : outputs) used.push_back(from_.outputs[i]);
  TensorList found = gradients_since(from_.floor, {used.data(), used.size()}, {wanted.data(), wanted.size()}, seeds,
                                     {.create_graph = create_graph_, .allow_unused = true});
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i] = found[i].defined() ? dense(found[i]) : full(wanted[i].shape(), 0.0, wanted[i].dtype());
  return found;
}

TensorList BackwardTrace::sums(std::span<const Tensor> a, std::span<const Tensor> b) {
  const InterpreterScope scope(made_->tracer);
  TensorList made;
  for (std::size_t i = 0; i < a.size(); ++i) made.push_back(add(a[i], b[i]));
  return made;
}

TensorList BackwardTrace::new_captures() const {
  const auto& all = made_->tracer.captures;
  return TensorList(std::span<const Tensor>(all.data() + captured_, all.size() - captured_));
}

void BackwardTrace::capture(const TensorList& tensors) {
  for (const auto& tensor : tensors) made_->tracer.capture(tensor);
}

Body BackwardTrace::finish(TensorList own, TensorList captures, TensorList outputs) {
  made_->tracer.expect_no_slots_filled();
  for (const auto& tensor : from_.captures) captures.push_back(tensor);
  for (const auto& tensor : new_captures()) captures.push_back(tensor);
  made_->own = std::move(own);
  made_->captures = std::move(captures);
  made_->outputs = std::move(outputs);
  Body body = finished(made_);
  if (!create_graph_) body.history = nullptr;
  return body;
}

}  // namespace starling::graph
