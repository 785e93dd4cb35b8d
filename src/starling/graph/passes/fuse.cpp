#include <algorithm>
#include <unordered_map>

#include "starling/graph/dependencies.h"
#include "starling/graph/pass.h"
#include "starling/graph/passes/fuse/fusion_groups.h"
#include "starling/graph/passes/fuse/fusion_roles.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/fused.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/registry.h"

namespace starling::graph::passes {
namespace {

// Operand of a program: a value of the graph, read in this shape.
struct Operand {
  ValueId value;
  Shape shape;
  friend bool operator==(const Operand&, const Operand&) = default;
};
// Output index of a value; `again`: another shape of an existing output.
struct Output {
  ValueId value;
  int index;
  bool again;
};
struct Program {
  FusedProgram text{};
  std::vector<Operand> operands{};
  std::vector<Output> outputs{};
};

// Builds the steps of a group; values are numbered operands first, then one per member that computes.
class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const FusionGroup& group) : graph_(graph), group_(group) {}

  Program run() {
    for (std::size_t m = 0; m < group_.members.size(); ++m) {
      for (ValueId in : graph_.node(group_.members[m]).in) {
        if (!inside(in)) operand(in, m);
      }
    }
    made_.text.operands = static_cast<int>(made_.operands.size());
    for (std::size_t m = 0; m < group_.members.size(); ++m) add_step(m);
    read_unstretched();
    for (ValueId id : group_.outputs) add_output(id);
    drop_stretches();
    return std::move(made_);
  }

 private:
  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  bool inside(ValueId id) const {
    return std::binary_search(group_.members.begin(), group_.members.end(), graph_.value(id).node);
  }
  std::size_t member_of(ValueId id) const {
    const auto it = std::lower_bound(group_.members.begin(), group_.members.end(), graph_.value(id).node);
    return static_cast<std::size_t>(it - group_.members.begin());
  }

  // Shape in which member m reads an outside value, aligned with the dimensions of m's result.
  Shape read_as(ValueId id, std::size_t m) const {
    const Shape &own = shape(id), &result = shape(graph_.node(group_.members[m]).out[0]), &places = group_.places[m];
    if (fused_reduction(*graph_.node(group_.members[m]).op) || places.rank() == group_.whole.rank()) return own;
    Shape spread = Shape::filled(group_.whole.rank(), 1);
    for (int d = 0; d < own.rank(); ++d) spread[static_cast<int>(places[result.rank() - own.rank() + d])] = own[d];
    return own.numel() == 1 ? own : spread;
  }

  int operand(ValueId id, std::size_t m) {
    if (inside(id)) return number_.at(id);
    const Operand wanted{id, read_as(id, m)};
    auto it = std::find(made_.operands.begin(), made_.operands.end(), wanted);
    if (it == made_.operands.end()) it = made_.operands.insert(it, wanted);
    return static_cast<int>(it - made_.operands.begin());
  }

  void add_step(std::size_t m) {
    const Node& node = graph_.node(group_.members[m]);
    const bool same = is_op(node, "reshape") || is_op(node, "squeeze") || is_op(node, "unsqueeze");
    if (same) {
      number_.emplace(node.out[0], number_.at(node.in[0]));
      return;
    }
    FusedStep step{.op = node.op};
    if (fused_reduction(*node.op)) {
      for (auto axis : fusion_axes(graph_, group_.members[m])) step.attributes.push_back(static_cast<double>(axis));
    } else if (!is_op(node, "broadcast_to")) {
      for (double attribute : numbers_of(node.attrs)) step.attributes.push_back(attribute);
    }
    for (ValueId in : node.in) step.in.push_back(operand(in, m));
    number_.emplace(node.out[0], made_.text.operands + static_cast<int>(made_.text.steps.size()));
    made_.text.steps.push_back(std::move(step));
  }

  // Drops broadcasts for steps that also read a full-size value and so broadcast implicitly.
  void read_unstretched() {
    const auto below = made_.text.reduced();
    const auto wide = [&](int value) {
      if (!made_.text.is_step(value)) return made_.operands[static_cast<std::size_t>(value)].shape == group_.whole;
      return !below[static_cast<std::size_t>(value)];
    };
    for (auto& step : made_.text.steps) {
      if (step.reduces() || step.stretches() || std::none_of(step.in.begin(), step.in.end(), wide)) continue;
      for (int& value : step.in) {
        if (made_.text.is_step(value) && made_.text.step(value).stretches()) value = made_.text.step(value).in[0];
      }
    }
  }

  void add_output(ValueId id) {
    const int number = number_.at(id);
    auto& outputs = made_.text.outputs;
    const auto it = std::find(outputs.begin(), outputs.end(), number);
    made_.outputs.push_back({id, static_cast<int>(it - outputs.begin()), it != outputs.end()});
    if (it != outputs.end()) return;
    outputs.push_back(number);
    Shape lost;
    const Shape& places = group_.places[member_of(id)];
    for (int d = 0; d < group_.whole.rank(); ++d) {
      if (std::find(places.begin(), places.end(), d) == places.end()) lost.push_back(d);
    }
    made_.text.dropped.push_back(lost);
  }

  // Drops broadcasts without readers.
  void drop_stretches() {
    FusedProgram& text = made_.text;
    for (std::size_t s = text.steps.size(); s-- > 0;) {
      if (!text.steps[s].stretches()) continue;
      const int number = text.operands + static_cast<int>(s);
      const auto reads = [&](const FusedStep& step) { return std::ranges::find(step.in, number) != step.in.end(); };
      if (std::ranges::any_of(text.steps, reads) || std::ranges::find(text.outputs, number) != text.outputs.end())
        continue;
      text.steps.erase(text.steps.begin() + static_cast<std::ptrdiff_t>(s));
      const auto shift = [&](int& value) { value -= value > number; };
      for (auto& step : text.steps) std::ranges::for_each(step.in, shift);
      std::ranges::for_each(text.outputs, shift);
    }
  }

  const Graph& graph_;
  const FusionGroup& group_;
  std::unordered_map<ValueId, int> number_;  // by result of a member
  Program made_;
};

class Fuser {
 public:
  explicit Fuser(const Graph& graph)
      : graph_(graph), rewriter_(graph), before_(dependencies(graph)), found_(fusion_groups(graph, before_)) {}

  Graph run() {
    for (NodeId id : order()) {
      const int group = found_.group_of[static_cast<std::size_t>(id)];
      if (group < 0)
        rewriter_.copy(id);
      else
        emit(found_.groups[static_cast<std::size_t>(group)]);
    }
    return rewriter_.finish();
  }

 private:
  // Order of nodes with each group at its first node.
  std::vector<NodeId> order() const {
    std::vector<NodeId> place(graph_.nodes().size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const int group = found_.group_of[static_cast<std::size_t>(id)];
      place[static_cast<std::size_t>(id)] =
          group < 0 ? id : found_.groups[static_cast<std::size_t>(group)].members.front();
    }
    return grouped_order(before_, place);
  }

  const TensorType& type(ValueId id) { return rewriter_.to().value(id).type; }
  std::vector<TensorType> types(const std::vector<ValueId>& values) {
    std::vector<TensorType> made;
    for (ValueId id : values) made.push_back(type(id));
    return made;
  }

  // Reads operands unbroadcast, as long as every step keeps its shape.
  void unstretch(std::vector<ValueId>& operands, const FusedProgram& program, const FusionGroup& group) {
    const auto wanted = program.infer(types(operands));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Node& maker = rewriter_.to().maker(operands[i]);
      if (!is_op(maker, "broadcast_to")) continue;
      const ValueId stretched = std::exchange(operands[i], maker.in[0]);
      const auto given = types(operands);
      bool same = fused_shape(given) == group.whole && even_along(given[i].shape, group.whole, group.rows);
      if (same) {
        const auto made = program.infer(given);
        same = std::equal(made.begin() + program.operands, made.end(), wanted.begin() + program.operands);
      }
      if (!same) operands[i] = stretched;
    }
  }

  ValueId reshaped(ValueId id, const Shape& shape, NodeId like) {
    if (type(id).shape == shape) return id;
    static const OpDef& op = find_op("reshape");
    const NodeId made = rewriter_.emit(op, std::span(&id, 1), op::ShapeAttrs{shape}, like);
    return rewriter_.to().node(made).out[0];
  }

  void emit(const FusionGroup& group) {
    static const OpDef& op = find_op("fused");
    const Program program = ProgramBuilder(graph_, group).run();
    std::vector<ValueId> in;
    for (const auto& [value, shape] : program.operands)
      in.push_back(reshaped(rewriter_.map(value), shape, group.members.front()));
    unstretch(in, program.text, group);
    const NodeId made = rewriter_.emit(op, in, op::FusedAttrs{Symbol(program.text.print())}, group.members.front());
    for (NodeId id : group.members) rewriter_.stands_for(id, made);
    for (const auto& [value, index, again] : program.outputs) {
      const ValueId first = rewriter_.to().node(made).out[static_cast<std::size_t>(index)];
      const ValueId fresh = again ? reshaped(first, graph_.value(value).type.shape, group.members.front()) : first;
      rewriter_.set(value, fresh);
      rewriter_.to().value(fresh).layouts = graph_.value(value).layouts;
    }
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> before_;
  FusionGroups found_;
};

// prune drops a broadcast_to without readers.
Graph fuse(const Graph& graph, const PassContext& context) { return prune(Fuser(graph).run(), context); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_fuse(PassTable& table) {
  table.add({.name = "fuse",
             .doc = "join elementwise chains, broadcasts and reductions into one pass over memory",
             .order = 2000,
             .run = passes::fuse});
}

}  // namespace starling::graph
