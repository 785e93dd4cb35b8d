#include "starling/graph/splice.h"

#include "starling/graph/tracer.h"
#include "starling/ops/def/apply.h"

namespace starling::graph {

SmallVector<ValueId, 4> splice(Rewriter& rewriter, const Graph& part, std::span<const ValueId> in, NodeId like) {
  std::vector<ValueId> made(part.values().size(), -1);
  for (const auto& node : part.nodes()) {
    const auto result = static_cast<std::size_t>(node.out[0]);
    if (is_op(node, "input")) {
      made[result] = in[static_cast<std::size_t>(source_index(node))];
      continue;
    }
    if (is_op(node, "constant")) {
      made[result] = rewriter.to().add_constant(part.constants[static_cast<std::size_t>(source_index(node))]);
      continue;
    }
    SmallVector<ValueId, 4> operands;
    for (ValueId id : node.in) operands.push_back(made[static_cast<std::size_t>(id)]);
    const NodeId id = rewriter.emit(*node.op, {operands.data(), operands.size()}, node.attrs, like);
    for (std::size_t i = 0; i < node.out.size(); ++i)
      made[static_cast<std::size_t>(node.out[i])] = rewriter.to().node(id).out[i];
  }
  SmallVector<ValueId, 4> outputs;
  for (ValueId id : part.outputs) outputs.push_back(made[static_cast<std::size_t>(id)]);
  return outputs;
}

Graph traced(std::span<const TensorType> in, FunctionRef<TensorList(std::span<const Tensor>)> function) {
  Tracer tracer;
  const InterpreterScope scope(tracer);
  const NoGrad no_grad;
  TensorList operands;
  for (const auto& type : in) operands.push_back(tracer.input(type, kCpu));
  for (const auto& out : function({operands.data(), operands.size()}))
    tracer.graph().outputs.push_back(tracer.value_of(out));
  return std::move(tracer.graph());
}

Graph decomposition(const OpDef& op, std::span<const TensorType> in, const Attrs& attrs) {
  return traced(in, [&](std::span<const Tensor> operands) { return op.decompose(operands, attrs); });
}

}  // namespace starling::graph
