#include "starling/dist/strategy/programs/planned_step.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/dist/strategy/programs/rank_program.h"
#include "starling/dist/strategy/programs/sharded_program.h"
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/graph/passes/partition/rounds.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/sharding/halo.h"
#include "starling/ops/def/sharding/resplit.h"
#include "starling/tensor/bytes.h"

namespace starling::dist {
namespace {

std::vector<Layout> split_inputs(const graph::Graph& traced) {
  std::vector<Layout> layouts;
  for (graph::ValueId in : traced.inputs)
    layouts.push_back(traced.value(in).type.shape.rank() > 0 ? Layout::split(0) : Layout::replicate());
  return layouts;
}

std::string label_of(const graph::Node& node) {
  const AttrField* field = node.attrs.find("name");
  return field ? node.attrs.get<Symbol>(*field).str() : "";
}

// First node that does something with a value: not one that only turns it. -1: it is a result.
graph::NodeId reader_of(const graph::Graph& graph, const std::vector<std::vector<graph::NodeId>>& users,
                        graph::ValueId value) {
  for (graph::NodeId user : users[static_cast<std::size_t>(value)]) {
    const graph::Node& node = graph.node(user);
    if (!graph::is_op(node, "transpose") || node.out.empty()) return user;
    return reader_of(graph, users, node.out[0]);
  }
  return -1;
}

// Module of a node; of gradients that of the node that they came from.
std::string scope_of(const graph::Graph& graph, const graph::Node& node) {
  if (!node.scope.empty() || node.origin < 0) return node.scope.str();
  return graph.node(node.origin).scope.str();
}

std::int64_t bytes_in(const graph::Graph& graph, const graph::Node& node) {
  std::int64_t bytes = 0;
  for (graph::ValueId in : node.in) {
    const TensorType& type = graph.value(in).type;
    bytes += type.shape.numel() * static_cast<std::int64_t>(size_of(type.dtype));
  }
  return bytes;
}

// Cuts of trained weights and of the optimizer's state, whose names begin with those of weights; other variables
// (running statistics, keys of random numbers) are whole.
AxisCuts cuts_in(const graph::Graph& traced, const StatePlan& plan, const Tensor& variable) {
  if (variable.requires_grad()) return plan.cuts(variable, StatePlan::kWeights);
  for (const graph::GraphVariable& one : traced.variables) {
    if (one.tensor.defined() && one.tensor.requires_grad() && one.tensor.shape() == variable.shape() &&
        variable.name().starts_with(one.tensor.name() + "."))
      return plan.cuts(variable, StatePlan::kState);
  }
  return {};
}

std::string along(std::int64_t dim) { return fmt::format("pieces along dimension {}", dim); }

// Layouts that an exchange is between, and the bytes that this rank sends of it.
void describe_exchange(const graph::Graph& graph, const graph::Node& node, std::int64_t ranks, PlannedExchange& one) {
  const std::int64_t bytes = one.bytes;
  if (one.op == "resplit") {
    const auto& a = node.attrs.as<op::ResplitAttrs>();
    const Shape& operand = graph.value(node.in[0]).type.shape;
    const auto kept = op::length(op::intervals_sent(a, operand, static_cast<int>(a.rank)));
    const std::int64_t size = std::max<std::int64_t>(operand[static_cast<int>(a.to)], 1);
    one.from = along(a.from), one.to = along(a.to);
    one.sent = bytes / size * (size - kept);
  } else if (node.op->attrs == &attr_type<op::HaloAttrs>()) {
    const auto& a = node.attrs.as<op::HaloAttrs>();
    const bool back = one.op == "halo_add";
    const std::int64_t rows = graph.value(node.in[0]).type.shape[static_cast<int>(a.dim)];
    one.from = back ? "rows of windows" : along(a.dim), one.to = back ? along(a.dim) : "rows of windows";
    one.sent = rows == 0 ? 0 : bytes / rows * (back ? op::rows_borrowed(a, a.rank) : op::rows_lent(a, a.rank));
  } else if (one.op == "all_gather") {
    one.from = "pieces", one.to = "whole";
    one.sent = bytes * (ranks - 1);
  } else if (one.op == "reduce_scatter") {
    const std::int64_t rows = graph.value(node.in[0]).type.shape[0];
    const std::int64_t own = graph.value(node.out[0]).type.shape[0];
    one.from = "terms", one.to = "pieces";
    one.sent = rows == 0 ? 0 : bytes / rows * (rows - own);
  } else if (node.op->attrs == &attr_type<op::RootAttrs>()) {
    const auto& a = node.attrs.as<op::RootAttrs>();
    const bool out = one.op == "broadcast", at_root = a.root == a.rank;
    one.from = out ? "rows of a rank" : "terms", one.to = out ? "whole" : "rows of a rank";
    one.sent = out ? (at_root ? bytes * (ranks - 1) : 0) : at_root ? 0 : bytes;
  } else {
    one.from = "terms", one.to = "whole";
    one.sent = 2 * bytes * (ranks - 1) / ranks;
  }
}

// Nodes of the forward pass come first: as many as there are before the first gradient.
graph::NodeId forward_nodes(const graph::Graph& graph) {
  graph::NodeId id = 0;
  while (id < graph.size() && graph.node(id).origin < 0) ++id;
  return id;
}

void add_exchanges(const StatePlan& plan, PlannedStep& step) {
  const graph::Graph& graph = step.local;
  const auto users = graph.users();
  const graph::NodeId forward = forward_nodes(graph);
  for (graph::NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    if (!node.op->comm) continue;
    const graph::NodeId reader = node.out.empty() ? -1 : reader_of(graph, users, node.out[0]);
    PlannedExchange one{.op = node.op->name,
                        .axis = graph::comm_group(node).str(),
                        .value = label_of(node),
                        .scope = scope_of(graph, node),
                        .reader = reader < 0 ? "a result" : graph.node(reader).op->name,
                        .reader_scope = reader < 0 ? "" : scope_of(graph, graph.node(reader)),
                        .from = {},
                        .to = {},
                        .backward = id >= forward,
                        .bytes = bytes_in(graph, node)};
    describe_exchange(graph, node, plan.mesh().size(one.axis), one);
    step.exchanges.push_back(std::move(one));
  }
}

// A program cut along one axis after the other, with what became of every value of the traced one.
class Cutting {
 public:
  Cutting(const graph::Graph& traced, PlannedStep& step) : step_(step) {
    for (graph::ValueId id = 0; id < static_cast<graph::ValueId>(traced.values().size()); ++id) now_.push_back(id);
    layouts_.resize(now_.size());
  }

  void note(std::string_view axis, int ranks, const graph::Partitioner& cut) {
    for (std::size_t i = 0; i < now_.size(); ++i) {
      if (now_[i] < 0) continue;
      const auto outcome = cut.outcome(now_[i]);
      now_[i] = outcome.local;
      if (!outcome.layout.is_replicate()) layouts_[i].push_back({std::string(axis), outcome.layout});
    }
    for (const auto& one : cut.fallbacks()) {
      step_.fallbacks.push_back({one.op, one.scope, std::string(axis), one.layout});
      note_heads(one, axis, ranks);
    }
  }

  void add_values(const graph::Graph& traced) {
    const graph::NodeId forward = forward_nodes(traced);
    for (graph::NodeId id = 0; id < forward; ++id) {
      const graph::Node& node = traced.node(id);
      if (graph::is_op(node, "variable") || graph::is_op(node, "constant")) continue;
      for (graph::ValueId out : node.out) {
        const auto at = static_cast<std::size_t>(out);
        if (now_[at] < 0) continue;
        step_.values.push_back(
            {node.op->name, node.scope.str(), traced.value(out).type, step_.local.value(now_[at]).type, layouts_[at]});
      }
    }
  }

 private:
  // [samples, tokens, width] taken apart to heads, [samples, tokens, heads, width of each]; a single head is split
  // itself until attention, [samples, heads, tokens, width of each], needs it.
  void note_heads(const graph::Partitioner::Fallback& one, std::string_view axis, int ranks) {
    const Shape &from = one.from.shape, &to = one.to.shape;
    const bool taken_apart = one.op == "reshape" && one.layout.is_split(2) && from.rank() == 3 && to.rank() == 4 &&
                             to[0] == from[0] && to[1] == from[1] && to[2] % ranks != 0;
    const bool split = one.op == "scaled_dot_product_attention" && one.layout.is_split(3) && from.rank() == 4;
    if (taken_apart || split) step_.gathered_heads.push_back({one.scope, std::string(axis), split ? from[1] : to[2]});
  }

  PlannedStep& step_;
  std::vector<graph::ValueId> now_;  // by value of the traced step: where it is in the program so far
  std::vector<AxisCuts> layouts_;
};

RankPart part_of(const graph::Graph& traced, const StatePlan& plan, int rank, const SeenCut& seen) {
  const auto cuts = [&](const Tensor& variable) { return cuts_in(traced, plan, variable); };
  RankPart part{.graph = with_pieces(along_model_axes(traced, plan, cuts, rank, seen), cuts, kDataAxis), .context = {}};
  if (plan.data_ranks() > 1)
    part.context = {.world = plan.data_ranks(),
                    .rank = plan.mesh().coordinate(rank, kDataAxis),
                    .group = std::string(kDataAxis),
                    .inputs = split_inputs(traced)};
  return part;
}

}  // namespace

RankPart rank_part(const graph::Graph& traced, const StatePlan& plan, int rank) {
  RankPart part = part_of(traced, plan, rank, {});
  if (!plan.rounds().empty()) part = {cut_in_rounds(part.graph, part.context, plan.rounds()), {}};
  return part;
}

PlannedStep plan_step(const graph::Graph& traced, const StatePlan& plan, int rank) {
  PlannedStep step;
  Cutting cutting(traced, step);
  const auto note = [&](std::string_view axis, const graph::Partitioner& cut) {
    cutting.note(axis, plan.mesh().size(axis), cut);
  };
  RankPart part = part_of(traced, plan, rank, note);
  if (plan.data_ranks() > 1) {
    const graph::Partitioner::Mesh along{
        .parts = part.context.world, .first = part.context.rank, .group = Symbol(kDataAxis)};
    graph::Partitioner cut(part.graph, along, part.context.inputs);
    graph::Graph made = cut.run();
    note(kDataAxis, cut);
    step.local = in_rounds(made, part.context, plan.rounds());
  } else {
    step.local = std::move(part.graph);
  }
  cutting.add_values(traced);
  add_exchanges(plan, step);
  return step;
}

void expect_whole_heads(const PlannedStep& step, const StatePlan& plan) {
  for (const auto& [scope, axis, heads] : step.gathered_heads)
    check(axis == kDataAxis,
          "[layout] expected a number of attention heads that {}: {} divides, got {} in {}, which would be gathered",
          axis, plan.mesh().size(axis), heads, scope.empty() ? "the network" : scope);
}

namespace {

// True for what a layer makes of a picture, such as a convolution or a pool; elementwise ops and views beside it save
// nobody work.
bool is_of_pictures(const PlannedValue& value) {
  const OpDef& op = find_op(value.op);
  return value.whole.shape.rank() >= 4 && !op.elementwise() && !op.view;
}

}  // namespace

void expect_some_split(const PlannedStep& step, const StatePlan& plan, const LayoutChoice& layout,
                       const std::vector<Tensor>& parameters) {
  for (const MeshAxis& axis : plan.mesh().axes()) {
    // Workers along `data` have rows of their own in any case.
    if (axis.name == kDataAxis || axis.size == 1 || !plan.has_rules_along(axis.name)) continue;
    const auto is_along = [&](const AxisCut& cut) { return cut.axis == axis.name; };
    const auto splits = [&](const AxisCuts& cuts) { return std::any_of(cuts.begin(), cuts.end(), is_along); };
    const bool pictures = plan.splits_pictures(axis.name) &&
                          std::any_of(step.values.begin(), step.values.end(), [&](const PlannedValue& one) {
                            return is_of_pictures(one) && splits(one.layouts);
                          });
    const bool weights = std::any_of(parameters.begin(), parameters.end(), [&](const Tensor& parameter) {
      return splits(plan.cuts(parameter, StatePlan::kWeights));
    });
    check(pictures || weights,
          "[layout] expected parameters, or convolutions or pools of pictures, that {} splits along {}: {}, got a "
          "network "
          "of which it leaves everything whole, so that these {} workers would compute the same",
          layout.preset.empty() ? "the layout" : layout.preset, axis.name, axis.size, axis.size);
  }
}

}  // namespace starling::dist
