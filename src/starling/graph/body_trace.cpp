#include "starling/graph/body_trace.h"

#include <memory>

#include "starling/base/error.h"
#include "starling/graph/tracer.h"
#include "starling/ops/apply.h"
#include "starling/ops/row_sparse.h"

namespace starling {
namespace {

void trace_one(Tracer& tracer, std::string_view control, const Types& own, const BodyFn& function,
               const TensorList& captured) {
  TensorList inputs;
  for (const auto& type : own) inputs.push_back(tracer.input(type, kCpu));
  for (const auto& tensor : captured) tracer.capture(tensor);
  const InterpreterScope scope(tracer);
  const NoGrad off;
  TensorList outputs;
  try {
    outputs = function(inputs);
  } catch (...) {
    tracer.restore_captured_slots();
    throw;
  }
  for (const auto& output : outputs) {
    check(output.defined(), "[{}] expected a body to return tensors, got an empty handle", control);
    tracer.graph().outputs.push_back(tracer.value_of(dense(output)));
  }
  tracer.expect_no_slots_filled();
}

}  // namespace

std::vector<BodyPtr> trace_bodies(std::string_view control, const Types& own, std::span<const BodyFn> functions,
                                  TensorList& captures) {
  std::vector<std::unique_ptr<Tracer>> tracers;
  for (const auto& function : functions) {
    tracers.push_back(std::make_unique<Tracer>(control));
    trace_one(*tracers.back(), control, own, function, captures);
    captures = TensorList(std::span<const Tensor>(tracers.back()->captures));
  }
  std::vector<BodyPtr> bodies;
  for (auto& tracer : tracers) {
    for (std::size_t i = tracer->captures.size(); i < captures.size(); ++i)
      tracer->graph().add_input(captures[i].type());
    bodies.push_back(std::make_shared<const Graph>(std::move(tracer->graph())));
  }
  return bodies;
}

}  // namespace starling
