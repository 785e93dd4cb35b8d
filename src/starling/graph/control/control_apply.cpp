#include "starling/graph/control/control_apply.h"

#include "starling/base/error.h"
#include "starling/graph/control/body_trace.h"
#include "starling/graph/control/control_types.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

TensorList emit(const OpDef& op, Attrs attrs, std::initializer_list<Body> bodies, std::span<const Tensor> operands) {
  Tracer* tracer = current_interpreter().tracer();
  check(tracer != nullptr, "[{}] expected to be applied while tracing, got a call outside", op.name);
  const auto* body = bodies.begin();
  for_each_body(attrs, [&](std::int64_t& index) {
    index = tracer->graph().add_body(body->graph);
    if (body->history) tracer->histories.emplace(body->graph.get(), body->history);
    ++body;
  });
  return apply(op, operands, attrs);
}

// Body that also returns the states it began with, from which its gradient starts, trip by trip.
Body saving(const Body& body, std::int64_t states) {
  auto graph = std::make_shared<Graph>(*body.graph);
  auto history = body.history ? std::make_shared<BodyHistory>(*body.history) : nullptr;
  for (std::int64_t i = 1; i <= states; ++i) {
    graph->outputs.push_back(graph->inputs[static_cast<std::size_t>(i)]);
    if (history) history->outputs.push_back(history->own[static_cast<std::size_t>(i)]);
  }
  return {std::move(graph), std::move(history)};
}

TensorList apply_again(const Graph& graph, const Node& node, std::span<const Tensor> in) {
  if (!is_control(*node.op)) return apply(*node.op, in, node.attrs);
  const auto bodies = bodies_of(graph, node);
  if (is_op(node, "cond")) return apply_cond({bodies[0]}, {bodies[1]}, in);
  if (is_op(node, "while")) return apply_while(node.attrs.as<op::WhileAttrs>(), {bodies[0]}, {bodies[1]}, in);
  if (is_op(node, "scan")) return apply_scan(node.attrs.as<op::ScanLoopAttrs>(), {bodies[0]}, in);
  return apply_while_grad(node.attrs.as<op::WhileGradAttrs>(), {bodies[0]}, {bodies[1]}, {bodies[2]}, in);
}

}  // namespace

TensorList apply_cond(const Body& then, const Body& otherwise, std::span<const Tensor> operands) {
  return emit(named_op<"cond">(), op::CondAttrs{}, {then, otherwise}, operands);
}

TensorList apply_while(op::WhileAttrs attrs, const Body& condition, const Body& body,
                       std::span<const Tensor> operands) {
  static const OpDef& op = named_op<"while">();
  const bool save = attrs.max_trips > 0 && !attrs.saves && wants_record(op, operands);
  attrs.saves |= save;
  return emit(op, attrs, {condition, save ? saving(body, attrs.states) : body}, operands);
}

TensorList apply_scan(op::ScanLoopAttrs attrs, const Body& body, std::span<const Tensor> operands) {
  static const OpDef& op = named_op<"scan">();
  const bool save = !attrs.saves && wants_record(op, operands);
  attrs.saves |= save;
  return emit(op, attrs, {save ? saving(body, attrs.carried) : body}, operands);
}

TensorList apply_while_grad(op::WhileGradAttrs attrs, const Body& condition, const Body& body, const Body& backward,
                            std::span<const Tensor> operands) {
  return emit(named_op<"while_grad">(), attrs, {condition, body, backward}, operands);
}

TensorList apply_body(const Graph& body, std::span<const Tensor> inputs) {
  std::vector<Tensor> values(body.values().size());
  for (const Node& node : body.nodes()) {
    if (is_source(node)) {
      const auto index = static_cast<std::size_t>(source_index(node));
      values[static_cast<std::size_t>(node.out[0])] =
          is_op(node, "input") ? inputs[index] : constant(body.constants[index]);
      continue;
    }
    TensorList in;
    for (ValueId id : node.in) in.push_back(values[static_cast<std::size_t>(id)]);
    TensorList out = apply_again(body, node, {in.data(), in.size()});
    // Loops recorded now may have more results than before.
    for (std::size_t i = 0; i < node.out.size(); ++i) values[static_cast<std::size_t>(node.out[i])] = std::move(out[i]);
  }
  TensorList outputs;
  for (ValueId id : body.outputs) outputs.push_back(values[static_cast<std::size_t>(id)]);
  return outputs;
}

}  // namespace starling::graph
