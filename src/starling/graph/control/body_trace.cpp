#include "starling/graph/control/body_trace.h"

#include "starling/autograd/grad_node.h"
#include "starling/base/error.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::graph {
namespace {

using HistoryPtr = std::shared_ptr<BodyHistory>;

HistoryPtr begin_body(std::string_view control, const Types& own) {
  HistoryPtr made(new BodyHistory{Tracer(control), next_grad_sequence(), {}, {}, {}});
  for (const auto& type : own) {
    made->own.push_back(made->tracer.input(type, kCpu));
    if (grad_enabled() && is_float(type.dtype)) made->own.back().set_requires_grad();
  }
  return made;
}

HistoryPtr trace_one(std::string_view control, const Types& own, const BodyFn& function, const TensorList& captured) {
  HistoryPtr made = begin_body(control, own);
  for (const auto& tensor : captured) made->tracer.capture(tensor);
  const InterpreterScope scope(made->tracer);
  try {
    made->outputs = function(made->own);
  } catch (...) {
    made->tracer.restore_captured_slots();
    throw;
  }
  for (auto& output : made->outputs) {
    check(output.defined(), "[{}] expected a body to return tensors, got an empty handle", control);
    output = dense(output);
    made->tracer.capture(output);  // an outside tensor returned unchanged
  }
  made->tracer.expect_no_slots_filled();
  return made;
}

}  // namespace

Body finished(HistoryPtr history) {
  Tracer& tracer = history->tracer;
  auto graph = std::make_shared<Graph>(tracer.graph());
  graph->inputs.clear();
  graph->outputs.clear();
  for (const auto* list : {&history->own, &history->captures}) {
    for (const auto& input : *list) {
      const ValueId id = tracer.value_of(input);
      Node& node = graph->node(graph->value(id).node);
      op::SourceAttrs attrs = node.attrs.as<op::SourceAttrs>();
      attrs.index = static_cast<std::int64_t>(graph->inputs.size());
      node.attrs = attrs;
      graph->inputs.push_back(id);
    }
  }
  for (const auto& output : history->outputs) graph->outputs.push_back(tracer.value_of(output));
  return {std::move(graph), std::move(history)};
}

std::shared_ptr<const BodyHistory> replayed(const Graph& body, std::string_view control, std::size_t own) {
  const GradMode on(true);
  Types types;
  for (ValueId id : body.inputs) types.push_back(body.value(id).type);
  const HistoryPtr made = begin_body(control, types);
  const InterpreterScope scope(made->tracer);
  const TensorList inputs = made->own;
  made->outputs = apply_body(body, {inputs.data(), inputs.size()});
  made->own = TensorList(std::span<const Tensor>(inputs.data(), own));
  made->captures = TensorList(std::span<const Tensor>(inputs.data() + own, inputs.size() - own));
  return made;
}

std::vector<Body> trace_bodies(std::string_view control, const Types& own, std::span<const BodyFn> functions,
                               TensorList& captures) {
  std::vector<HistoryPtr> made;
  for (const auto& function : functions) {
    made.push_back(trace_one(control, own, function, captures));
    captures = TensorList(std::span<const Tensor>(made.back()->tracer.captures));
  }
  std::vector<Body> bodies;
  for (auto& history : made) {
    for (const auto& tensor : captures) history->tracer.capture(tensor);
    history->captures = captures;
    bodies.push_back(finished(std::move(history)));
    if (!grad_enabled()) bodies.back().history = nullptr;
  }
  return bodies;
}

}  // namespace starling::graph
