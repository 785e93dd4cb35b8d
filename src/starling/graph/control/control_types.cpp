#include "starling/graph/control/control_types.h"

#include <algorithm>
#include <map>
#include <set>

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/control.h"

namespace starling::graph {
namespace {

const TensorType kTrip{DType::i64, {}};
const TensorType kFlag{DType::boolean, {}};

// Control-flow call being checked: bodies may come from text files, so everything is verified.
class ControlCall {
 public:
  ControlCall(const Graph& graph, const OpDef& op, std::span<const TensorType> in) : graph_(graph), op_(op), in_(in) {}

  Types cond(const op::CondAttrs& a) const {
    expect_type("the predicate", in_[0], kFlag);
    const auto captures = in_.subspan(1);
    Types made = outputs_of(body("then", a.then, {}, {}, captures));
    const Types other = outputs_of(body("otherwise", a.otherwise, {}, {}, captures));
    check(made.size() == other.size(), "[cond] expected as many results from both branches, got {} and {}", made.size(),
          other.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      check(made[i] == other[i], "[cond] expected result {} to be {} in both branches, got {} in the other", i,
            to_string(made[i]), to_string(other[i]));
    }
    return made;
  }

  Types loop(const op::WhileAttrs& a) const {
    const auto states = part("states", a.states, 0);
    check(a.states > 0, "[while] expected at least one state, got none");
    check(a.max_trips >= 0, "[while] expected max_trips of 0 (no bound) or more, got {}", a.max_trips);
    const auto captures = in_.subspan(states.size());
    expect_condition(a.condition, states, captures);
    const Types made = outputs_of(body("body", a.body, kLoop, states, captures));
    expect_next("state", made, states);
    Types out(std::span<const TensorType>(made.data(), states.size()));
    check(a.max_trips > 0 || made.size() == states.size(),
          "[while] expected max_trips where trips have results of their own, got {} of them without a bound",
          made.size() - states.size());
    expect_saved(a.saves, states, made);
    if (a.max_trips == 0) return out;
    out.push_back(kTrip);
    for (std::size_t i = states.size(); i < made.size(); ++i) out.push_back(stacked(made[i], a.max_trips));
    return out;
  }

  Types scan(const op::ScanLoopAttrs& a) const {
    std::size_t at = 0;
    check(a.length > 0, "[scan] expected at least one slice, got {}", a.length);
    if (a.limited) expect_type("the number of trips", in_[at++], kTrip);
    const auto carry = part("carried", a.carried, at);
    at += carry.size();
    Types own(carry);
    for (const auto& x : part("sliced", a.sliced, at)) {
      check(x.shape.rank() > 0 && x.shape[0] == a.length, "[scan] expected {} slices along axis 0, got {}", a.length,
            to_string(x));
      own.push_back({x.dtype, rest(x.shape)});
      ++at;
    }
    const Types made = outputs_of(body("body", a.body, kLoop, {own.data(), own.size()}, in_.subspan(at)));
    expect_next("carry", made, carry);
    expect_saved(a.saves, carry, made);
    Types out(std::span<const TensorType>(made.data(), carry.size()));
    for (std::size_t i = carry.size(); i < made.size(); ++i) out.push_back(stacked(made[i], a.length));
    return out;
  }

  Types loop_gradient(const op::WhileGradAttrs& a) const {
    const auto carry = part("carried", a.carried, 0);
    const auto states = part("states", a.states, carry.size());
    check(a.states > 0, "[while_grad] expected at least one state, got none");
    const auto captures = in_.subspan(carry.size() + states.size());
    expect_condition(a.condition, states, captures);
    const Types next = outputs_of(body("body", a.body, kLoop, states, captures));
    expect_next("state", next, states);
    check(next.size() == states.size(), "[while_grad] expected {} results of the body, got {}", states.size(),
          next.size());
    Types own(carry);
    for (const auto& state : states) own.push_back(state);
    Types made = outputs_of(body("backward", a.backward, kLoop, {own.data(), own.size()}, captures));
    expect_next("carry", made, carry);
    check(made.size() == carry.size(), "[while_grad] expected {} results of the backward body, got {}", carry.size(),
          made.size());
    return made;
  }

 private:
  static constexpr bool kLoop = true;

  static Shape rest(const Shape& shape) {
    Shape out;
    for (int i = 1; i < shape.rank(); ++i) out.push_back(shape[i]);
    return out;
  }

  TensorType stacked(const TensorType& one, std::int64_t length) const {
    check(one.shape.rank() < kMaxRank, "[{}] expected results of rank below {} to stack, got {}", op_.name, kMaxRank,
          to_string(one));
    Shape shape = one.shape;
    shape.insert(0, length);
    return {one.dtype, shape};
  }

  void expect_type(const char* what, const TensorType& given, const TensorType& wanted) const {
    check(given == wanted, "[{}] expected {} to be {}, got {}", op_.name, what, to_string(wanted), to_string(given));
  }

  std::span<const TensorType> part(const char* what, std::int64_t count, std::size_t from) const {
    check(count >= 0 && static_cast<std::uint64_t>(count) <= in_.size() - from,
          "[{}] expected {} of 0 to {} operands, got {}", op_.name, what, in_.size() - from, count);
    return in_.subspan(from, static_cast<std::size_t>(count));
  }

  // Body of that index, which must take (trip,) own and captures.
  const Graph& body(const char* role, std::int64_t index, bool loop, std::span<const TensorType> own,
                    std::span<const TensorType> captures) const {
    check(index >= 0 && index < static_cast<std::int64_t>(graph_.bodies.size()),
          "[{}] expected {} to be one of {} bodies, got {}", op_.name, role, graph_.bodies.size(), index);
    const Graph& body = *graph_.bodies[static_cast<std::size_t>(index)];
    Types wanted;
    if (loop) wanted.push_back(kTrip);
    for (const auto& type : own) wanted.push_back(type);
    for (const auto& type : captures) wanted.push_back(type);
    check(body.inputs.size() == wanted.size(), "[{}] expected {} to take {} inputs, got {}", op_.name, role,
          wanted.size(), body.inputs.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const TensorType& given = body.value(body.inputs[i]).type;
      check(given == wanted[i], "[{}] expected input {} of {} to be {}, got {}", op_.name, i, role,
            to_string(wanted[i]), to_string(given));
    }
    return body;
  }

  static Types outputs_of(const Graph& body) {
    Types types;
    for (ValueId id : body.outputs) types.push_back(body.value(id).type);
    return types;
  }

  void expect_condition(std::int64_t index, std::span<const TensorType> states,
                        std::span<const TensorType> captures) const {
    const Types made = outputs_of(body("condition", index, kLoop, states, captures));
    check(made.size() == 1 && made[0] == kFlag, "[{}] expected the condition to give {}, got {}", op_.name,
          to_string(kFlag), made.size() == 1 ? to_string(made[0]) : fmt::format("{} results", made.size()));
  }

  void expect_next(const char* what, const Types& made, std::span<const TensorType> before) const {
    check(made.size() >= before.size(), "[{}] expected the body to give {} of {}, got {} results", op_.name,
          before.size(), what, made.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      check(made[i] == before[i], "[{}] expected {} {} to stay {}, got {} from the body", op_.name, what, i,
            to_string(before[i]), to_string(made[i]));
    }
  }

  void expect_saved(bool saves, std::span<const TensorType> states, const Types& made) const {
    if (!saves) return;
    bool fits = made.size() >= 2 * states.size();
    for (std::size_t i = 0; fits && i < states.size(); ++i) fits = made[made.size() - states.size() + i] == states[i];
    check(fits, "[{}] expected the last results to be the {} states of each trip, got others", op_.name, states.size());
  }

  const Graph& graph_;
  const OpDef& op_;
  std::span<const TensorType> in_;
};

// Bodies that several nodes share are visited once.
template <class Property>
bool any_node(const Graph& graph, const Node& node, const Property& property, std::set<const Graph*>& seen) {
  if (property(node)) return true;
  if (!is_control(*node.op)) return false;
  for (const auto& body : bodies_of(graph, node)) {
    if (!seen.insert(&*body).second) continue;
    for (const Node& inner : body->nodes()) {
      if (any_node(*body, inner, property, seen)) return true;
    }
  }
  return false;
}
template <class Property>
bool any_node(const Graph& graph, const Node& node, const Property& property) {
  std::set<const Graph*> seen;
  return any_node(graph, node, property, seen);
}

}  // namespace

Types infer_node(const Graph& graph, const OpDef& op, std::span<const TensorType> in, const Attrs& attrs) {
  if (!is_control(op)) return infer(op, in, attrs);
  check(!in.empty(), "[{}] expected operands, got none", op.name);
  if (&attrs.type() != op.attrs) fail("[{}] expected its own attributes, got others", op.name);
  const ControlCall call(graph, op, in);
  Types out = op.attrs == &attr_type<op::CondAttrs>()       ? call.cond(attrs.as<op::CondAttrs>())
              : op.attrs == &attr_type<op::WhileAttrs>()    ? call.loop(attrs.as<op::WhileAttrs>())
              : op.attrs == &attr_type<op::ScanLoopAttrs>() ? call.scan(attrs.as<op::ScanLoopAttrs>())
                                                            : call.loop_gradient(attrs.as<op::WhileGradAttrs>());
  for (const auto& type : out) check_size(type.shape, size_of(type.dtype), op.name.c_str());
  return out;
}

bool has_effects(const Graph& graph, const Node& node) {
  return any_node(graph, node, [](const Node& n) { return (n.op->stateful && !is_source(n)) || n.op->comm; });
}

bool acts_outside(const Graph& graph, const Node& node) { return any_node(graph, node, has_effect); }

bool communicates(const Graph& graph, const Node& node) {
  return any_node(graph, node, [](const Node& n) { return n.op->comm; });
}

bool draws_random(const Graph& graph, const Node& node) {
  return any_node(graph, node, [](const Node& n) { return n.op->random; });
}

namespace {

double written_out(const Graph& graph, std::map<const Graph*, double>& known) {
  if (const auto found = known.find(&graph); found != known.end()) return found->second;
  double nodes = graph.size();
  for (const Node& node : graph.nodes()) {
    if (!is_control(*node.op)) continue;
    for (const auto& body : bodies_of(graph, node)) nodes += written_out(*body, known);
  }
  return known[&graph] = nodes;
}

}  // namespace

double written_out(const Graph& graph) {
  std::map<const Graph*, double> known;
  return written_out(graph, known);
}

std::vector<std::shared_ptr<const Graph>> bodies_of(const Graph& graph, const Node& node) {
  std::vector<std::shared_ptr<const Graph>> bodies;
  Attrs attrs = node.attrs;
  for_each_body(attrs, [&](std::int64_t index) { bodies.push_back(graph.bodies[static_cast<std::size_t>(index)]); });
  return bodies;
}

LoopParts loop_parts(const Attrs& attrs, std::size_t operands) {
  LoopParts parts;
  if (&attrs.type() == &attr_type<op::WhileAttrs>()) {
    parts.carried = static_cast<std::size_t>(attrs.as<op::WhileAttrs>().states);
  } else {
    const auto& a = attrs.as<op::ScanLoopAttrs>();
    parts = {a.limited ? std::size_t{1} : 0, static_cast<std::size_t>(a.carried), static_cast<std::size_t>(a.sliced),
             0};
  }
  parts.captures = operands - parts.first_capture();
  return parts;
}

}  // namespace starling::graph
