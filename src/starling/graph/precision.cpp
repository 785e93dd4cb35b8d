#include "starling/graph/precision.h"

#include <memory>

#include "starling/base/error.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {

DType dtype_in_double(DType dtype) { return is_float(dtype) ? DType::f64 : dtype; }

namespace {

class Doubling {
 public:
  explicit Doubling(const Graph& from) : from_(from), values_(from.values().size(), -1) {}

  Graph run() {
    for (const auto& variable : from_.variables) to_.add_variable({variable.name, doubled(variable.type), {}});
    for (const auto& constant : from_.constants) {
      const Tensor host = to(constant, kCpu);
      to_.constants.push_back(is_float(host.dtype()) ? from_doubles(host.to_vector(), host.shape(), DType::f64) : host);
    }
    for (const auto& body : from_.bodies) to_.bodies.push_back(std::make_shared<const Graph>(in_double(*body)));
    for (NodeId id = 0; id < from_.size(); ++id) node(id);
    for (ValueId id : from_.inputs) to_.inputs.push_back(value(id));
    for (ValueId id : from_.outputs) to_.outputs.push_back(value(id));
    return std::move(to_);
  }

 private:
  static TensorType doubled(TensorType type) {
    type.dtype = dtype_in_double(type.dtype);
    return type;
  }
  ValueId& value(ValueId id) { return values_[static_cast<std::size_t>(id)]; }

  static Attrs doubled(Attrs attrs) {
    for (const auto& field : attrs.type().fields) {
      if (field.kind == AttrKind::dtype) attrs.get<DType>(field) = dtype_in_double(attrs.get<DType>(field));
    }
    return attrs;
  }

  void node(NodeId id) {
    const Node& before = from_.node(id);
    const bool draws = before.op->random && !reads_floats(before);
    const NodeId made = draws ? add(before, operands(before), before.attrs) : added(before);
    for (std::size_t i = 0; i < before.out.size(); ++i) {
      const ValueId out = to_.node(made).out[i];
      const bool wrong = is_float(to_.value(out).type.dtype) && to_.value(out).type.dtype != DType::f64;
      value(before.out[i]) = wrong ? converted(out, DType::f64) : out;
    }
  }

  bool reads_floats(const Node& node) const {
    for (ValueId in : node.in) {
      if (is_float(from_.value(in).type.dtype)) return true;
    }
    return false;
  }

  // Some ops require scalars of a fixed dtype (a learning rate); ops without f64 support are computed in their own
  // dtype.
  NodeId added(const Node& before) {
    try {
      return add(before, operands(before), doubled(before.attrs));
    } catch (const Error&) {
      try {
        return add(before, operands(before, 0), doubled(before.attrs));
      } catch (const Error&) {
        return add(before, operands(before, kMaxRank), before.attrs);
      }
    }
  }

  // Operands up to rank `keep` retain their dtype; -1: none.
  SmallVector<ValueId, 4> operands(const Node& before, int keep = -1) {
    SmallVector<ValueId, 4> in;
    for (ValueId id : before.in) {
      const TensorType& old = from_.value(id).type;
      const bool kept = old.shape.rank() <= keep && is_float(old.dtype);
      in.push_back(kept ? converted(value(id), old.dtype) : value(id));
    }
    return in;
  }

  ValueId converted(ValueId id, DType dtype) {
    if (to_.value(id).type.dtype == dtype) return id;
    static const OpDef& op = find_op("cast");
    Attrs attrs = Attrs::defaults(*op.attrs);
    attrs.get<DType>(*attrs.find("dtype")) = dtype;
    return to_.node(to_.add(op, {&id, 1}, attrs)).out[0];
  }

  NodeId add(const Node& before, const SmallVector<ValueId, 4>& in, const Attrs& attrs) {
    const NodeId made = to_.add(*before.op, {in.data(), in.size()}, attrs);
    to_.node(made).scope = before.scope;
    return made;
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
};

}  // namespace

Graph in_double(const Graph& graph) { return Doubling(graph).run(); }

}  // namespace starling::graph
