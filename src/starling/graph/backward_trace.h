#pragma once

#include "starling/graph/body_trace.h"

namespace starling {

// The gradient of a body, traced on in a copy of its tracer. It takes what the body takes and more, and may capture
// more. With gradients enabled it is recorded too, so that it can be differentiated again.
class BackwardTrace {
 public:
  explicit BackwardTrace(const Body& body);  // which must live as long

  const BodyHistory& from() const { return from_; }

  // Further inputs.
  TensorList inputs(const Types& types);

  // The gradients of some outputs of the body, given, with respect to some of its inputs; zeros where nothing flows.
  TensorList pull(std::span<const std::size_t> outputs, std::span<const Tensor> seeds, const TensorList& wanted);
  TensorList sums(std::span<const Tensor> a, std::span<const Tensor> b);

  // What was captured on the way back, for the first time; capture() adds what another body has, so that both take the
  // same.
  TensorList new_captures() const;
  void capture(const TensorList& tensors);

  // `captures`: further inputs that go before the body's captures, as such.
  Body finish(TensorList own, TensorList captures, TensorList outputs);

 private:
  bool create_graph_;
  const BodyHistory& from_;
  std::shared_ptr<BodyHistory> made_;
  std::size_t captured_;
};

}  // namespace starling
