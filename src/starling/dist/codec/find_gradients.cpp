#include "starling/dist/codec/find_gradients.h"

#include <algorithm>

#include "starling/ops/def/attrs/matmul.h"
#include "starling/ops/def/attrs/update.h"

namespace starling::dist {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

// Operand that an elementwise node scales or bends by numbers alone; none for other nodes.
std::optional<ValueId> bent(const Graph& graph, ValueId value) {
  const Node& node = graph.maker(value);
  if (!node.op->elementwise()) return std::nullopt;
  std::optional<ValueId> found;
  for (ValueId in : node.in) {
    const TensorType& type = graph.value(in).type;
    if (type.shape.rank() == 0 && graph.value(value).type.shape.rank() > 0) continue;
    if (found || !(type == graph.value(value).type)) return std::nullopt;
    found = in;
  }
  return found;
}

// True if the value follows from variables and constants alone, not from the batch.
bool is_given(const Graph& graph, ValueId value) {
  const Node& node = graph.maker(value);
  if (is_op(node, "variable") || is_op(node, "constant") || is_op(node, "full")) return true;
  return node.op->elementwise() && !node.in.empty() &&
         std::all_of(node.in.begin(), node.in.end(), [&](ValueId in) { return is_given(graph, in); });
}

// True for gradient · number or gradient / number, which is the sum of the same of every rank's terms.
bool is_plain_product(const Graph& graph, ValueId value, ValueId gradient) {
  const Node& node = graph.maker(value);
  if (!is_op(node, "mul") && !(is_op(node, "div") && node.in[0] == gradient)) return false;
  return std::all_of(node.in.begin(), node.in.end(), [&](ValueId in) { return in == gradient || is_given(graph, in); });
}

ValueId exchanged(const Graph& graph, ValueId gradient) {
  std::vector<ValueId> path{gradient};
  while (const auto before = bent(graph, path.back())) path.push_back(*before);
  while (path.size() > 1 && is_plain_product(graph, path[path.size() - 2], path.back())) path.pop_back();
  return path.back();
}

ValueId skip_of(const Node& update) {
  const AttrField* guarded = update.attrs.find("guarded");
  return guarded && update.attrs.get<bool>(*guarded) ? update.in.back() : -1;
}

}  // namespace

std::vector<UsedGradient> find_gradients(const Graph& graph) {
  std::vector<UsedGradient> found;
  for (const Node& node : graph.nodes()) {
    const auto operands = op::update_operands(*node.op, node.attrs);
    if (!operands || operands->tensors(node.in.size()) != 1) continue;
    const Node& parameter = graph.maker(node.in[0]);
    const ValueId gradient = node.in[operands->targets];
    if (!is_op(parameter, "variable") || graph.value(gradient).type.dtype != DType::f32) continue;
    const UsedGradient one{exchanged(graph, gradient), static_cast<int>(source_index(parameter)), skip_of(node)};
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const auto& other) { return other.value == one.value; });
    if (!known) found.push_back(one);
  }
  return found;
}

std::optional<FactorShape> factor_shape(const Graph& graph, ValueId gradient, int ranks) {
  const Node& product = graph.maker(gradient);
  if (!is_op(product, "matmul") || !product.after.empty()) return std::nullopt;
  const auto& flags = product.attrs.as<op::MatmulAttrs>();
  const Shape &errors = graph.value(product.in[0]).type.shape, &inputs = graph.value(product.in[1]).type.shape;
  if (!flags.trans_a || flags.trans_b || errors.rank() != 2 || inputs.rank() != 2) return std::nullopt;
  return FactorShape{(errors[0] + ranks - 1) / ranks, errors[1], inputs[1]};
}

}  // namespace starling::dist
