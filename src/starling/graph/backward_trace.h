#pragma once

#include "starling/graph/control/body_trace.h"

namespace starling::graph {

// Gradient of a body, traced in a copy of its tracer. It takes the body's inputs and more, and may capture more. With
// gradients enabled it is recorded too, for higher derivatives.
class BackwardTrace {
 public:
  explicit BackwardTrace(const Body& body);  // `body` must outlive this

  const BodyHistory& from() const { return from_; }

  // Adds inputs.
  TensorList inputs(const Types& types);

  // Gradients of some outputs of the body, given `seeds`, with respect to some of its inputs; zeros where nothing
  // flows.
  TensorList pull(std::span<const std::size_t> outputs, std::span<const Tensor> seeds, const TensorList& wanted);
  TensorList sums(std::span<const Tensor> a, std::span<const Tensor> b);

  // new_captures(): tensors first captured by the backward trace. capture() adds those of another body, so that both
  // take the same.
  TensorList new_captures() const;
  void capture(const TensorList& tensors);

  // `captures`: added inputs that become captures and precede the body's.
  Body finish(TensorList own, TensorList captures, TensorList outputs);

 private:
  bool create_graph_;
  const BodyHistory& from_;
  std::shared_ptr<BodyHistory> made_;
  std::size_t captured_;
};

}  // namespace starling::graph
