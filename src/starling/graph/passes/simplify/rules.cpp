#include "starling/graph/passes/simplify/rules.h"

#include "starling/graph/match.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {

Site::Site(Rewriter& rewriter, const std::vector<std::vector<NodeId>>& users, NodeId id)
    : rewriter_(rewriter), users_(users), id_(id) {
  in_ = rewriter.map({node().in.data(), node().in.size()});
}

std::optional<double> Site::number(ValueId id) const { return uniform_value(graph(), id); }

bool Site::is(ValueId id, double value) const {
  const auto known = number(id);
  return known && *known == value;
}

bool Site::dies(std::size_t i) const {
  const ValueId old = node().in[i];
  for (ValueId id : rewriter_.from().outputs) {
    if (id == old) return false;
  }
  return users_[static_cast<std::size_t>(old)].size() == 1;
}

std::vector<const Node*> Site::readers(std::size_t i) const {
  std::vector<const Node*> found;
  for (NodeId user : users_[static_cast<std::size_t>(node().in[i])]) found.push_back(&rewriter_.from().node(user));
  return found;
}

ValueId Site::emit(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs) {
  return rewriter_.to().node(rewriter_.emit(op, in, attrs, id_)).out[0];
}

ValueId Site::emit(std::string_view op, std::initializer_list<ValueId> in, const Attrs& attrs) {
  return emit(find_op(op), {in.begin(), in.size()}, attrs);
}

ValueId Site::scalar(double value, DType dtype) { return emit("full", {}, op::FullAttrs{{}, value, dtype}); }

ValueId Site::shaped(ValueId id, const Shape& shape) {
  return type(id).shape == shape ? id : emit("reshape", {id}, op::ShapeAttrs{shape});
}

ValueId Site::spread(ValueId id, const Shape& shape) {
  return type(id).shape == shape ? id : emit("broadcast_to", {id}, op::ShapeAttrs{shape});
}

}  // namespace starling::graph
