#include "starling/ops/def/attrs/control.h"

#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"

namespace starling {

bool is_control(const OpDef& op) {
  return op.attrs == &attr_type<op::CondAttrs>() || op.attrs == &attr_type<op::WhileAttrs>() ||
         op.attrs == &attr_type<op::ScanLoopAttrs>() || op.attrs == &attr_type<op::WhileGradAttrs>();
}

void fail_beyond_bound(std::int64_t max_trips) {
  fail("[while] expected the condition to fail within max_trips = {} trips, got one that still holds", max_trips);
}

namespace {

// Result types depend on the bodies, so the graph infers these nodes itself (see graph/control/control_types.h).
// Outside a graph they are invalid.
Types infer_nowhere(const InferCall& call) {
  fail(
      "[{}] expected to be a node of a graph that holds its bodies, got a call outside: use {}() of "
      "graph/control/control.h",
      call.op.name, call.op.name == "while" ? "while_loop" : call.op.name);
}

OpDef control(std::string name, std::string doc, const AttrType& attrs, std::string operands) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {std::move(operands)},
          .outputs = {"results"},
          .attrs = &attrs,
          .infer = infer_nowhere,
          .gradient = control_gradient,
          .cost = costs::each(1),
          .precision = Width::wide};
}

}  // namespace

void register_ops_control(OpRegistry& ops) {
  ops.add(control("cond", "One of two bodies, chosen by a predicate; only that one runs.", attr_type<op::CondAttrs>(),
                  "predicate_captures..."));
  ops.add(control("while", "A body again and again while a condition holds.", attr_type<op::WhileAttrs>(),
                  "states_captures..."));
  ops.add(control("scan", "A body for each slice along axis 0, its results stacked.", attr_type<op::ScanLoopAttrs>(),
                  "carry_xs_captures..."));
  ops.add(control("while_grad", "The gradient of a while without a bound.", attr_type<op::WhileGradAttrs>(),
                  "carry_states_captures..."));
}

}  // namespace starling
