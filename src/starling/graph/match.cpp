#include "starling/graph/match.h"

#include <algorithm>
#include <cmath>

#include "starling/ops/api/creation.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/dtype_limits.h"
#include "starling/tensor/dtype.h"

namespace starling::graph {
namespace {

// Number rounded to the dtype.
std::optional<double> held(double value, DType dtype) {
  if (!holds(dtype, value)) return std::nullopt;
  double rounded = dtype == DType::f32 ? static_cast<double>(static_cast<float>(value)) : value;
  if (is_half(dtype)) rounded = from_doubles({&value, 1}, {}, dtype).item();
  return std::isnan(rounded) ? std::nullopt : std::optional(rounded);
}

}  // namespace

std::optional<double> uniform_value(const Graph& graph, ValueId id) {
  const Node* maker = &graph.maker(id);
  while (is_op(*maker, "broadcast_to") || is_op(*maker, "reshape")) maker = &graph.maker(maker->in[0]);
  if (is_op(*maker, "full")) {
    const auto& attrs = maker->attrs.as<op::FullAttrs>();
    return held(attrs.value, attrs.dtype);
  }
  if (!is_op(*maker, "constant")) return std::nullopt;
  const Tensor& tensor = graph.constants[static_cast<std::size_t>(source_index(*maker))];
  if (tensor.numel() != 1 || tensor.device().kind != DeviceKind::cpu) return std::nullopt;
  const double value = tensor.item();
  if (!is_float(tensor.dtype()) && std::abs(value) >= 9007199254740992.0) return std::nullopt;  // maybe inexact
  return held(value, tensor.dtype());
}

bool is_pure(const Node& node) {
  const OpDef& op = *node.op;
  return !op.stateful && !op.random && !op.comm && !op.measure && node.after.empty() && node.lane == Lane::compute;
}

bool may_be_read_later(const Graph& graph, ValueId id, NodeId from, NodeId to) {
  while (graph.maker(id).op->view) id = graph.maker(id).in[0];
  const Node& source = graph.maker(id);
  if (!is_op(source, "variable")) return true;
  for (NodeId at = from; at < graph.size(); ++at) {
    const Node& node = graph.node(at);
    if (!is_op(node, "assign") || source_index(node) != source_index(source)) continue;
    // The new value may be written into the variable by its maker.
    if (at < to || graph.value(node.in[0]).node <= to) return false;
  }
  return true;
}

Uses::Uses(const Graph& graph) : graph_(graph), users_(graph.users()), is_output_(graph.values().size()) {
  for (ValueId id : graph.outputs) is_output_[static_cast<std::size_t>(id)] = true;
}

NodeId Uses::only(ValueId id) const {
  const auto& users = of(id);
  if (users.size() != 1 || is_output(id)) return -1;
  const Node& user = graph_.node(users[0]);
  const Node& maker = graph_.maker(id);
  if (std::count(user.in.begin(), user.in.end(), id) != 1) return -1;
  return user.device == maker.device && user.lane == maker.lane && user.after.empty() ? users[0] : -1;
}

bool Uses::only_by(ValueId id, std::span<const NodeId> readers) const {
  if (is_output(id)) return false;
  const auto among = [&](NodeId user) { return std::find(readers.begin(), readers.end(), user) != readers.end(); };
  return std::all_of(of(id).begin(), of(id).end(), among);
}

}  // namespace starling::graph
