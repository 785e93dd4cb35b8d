#include "starling/runtime/interpreter/graph_interpreter.h"

#include "starling/base/error.h"
#include "starling/kernels/eager.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/runtime/interpreter/control_interpreter.h"

namespace starling::runtime {

TensorList interpret(const graph::Graph& graph, const Container& container, std::span<const Tensor> inputs) {
  check(inputs.size() == graph.inputs.size(), "[interpret] expected {} inputs, got {}", graph.inputs.size(),
        inputs.size());
  const NoGrad no_grad;
  const InterpreterScope eager(eager_interpreter());
  const std::vector<Tensor> variables = container.bind(graph);
  std::vector<Tensor> values(graph.values().size());
  for (const auto& node : graph.nodes()) {
    if (is_source(node)) {
      const auto index = static_cast<std::size_t>(source_index(node));
      Tensor& out = values[static_cast<std::size_t>(node.out[0])];
      // A variable has its value at the time of reading: later assigns must not show through.
      out = is_op(node, "input")      ? inputs[index]
            : is_op(node, "variable") ? copied(variables[index])
                                      : graph.constants[index];
      continue;
    }
    TensorList in;
    for (graph::ValueId id : node.in) in.push_back(values[static_cast<std::size_t>(id)]);
    if (is_op(node, "assign")) {
      copy_into(variables[static_cast<std::size_t>(source_index(node))], kernels::densify(in[0]));
      continue;
    }
    TensorList out =
        is_control(*node.op) ? interpret_control(graph, node, in) : apply(*node.op, {in.data(), in.size()}, node.attrs);
    for (std::size_t i = 0; i < node.out.size(); ++i) values[static_cast<std::size_t>(node.out[i])] = std::move(out[i]);
  }
  TensorList outputs;
  for (graph::ValueId id : graph.outputs) outputs.push_back(kernels::densify(values[static_cast<std::size_t>(id)]));
  return outputs;
}

}  // namespace starling::runtime
