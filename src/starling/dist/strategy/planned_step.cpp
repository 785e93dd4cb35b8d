#include "starling/dist/strategy/planned_step.h"

#include "starling/base/error.h"
#include "starling/dist/strategy/sharded_program.h"
#include "starling/graph/passes/partition/partitioner.h"
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

// First op that does something with a value: not one that only turns it.
std::string reader_of(const graph::Graph& graph, const std::vector<std::vector<graph::NodeId>>& users,
                      graph::ValueId value) {
  for (graph::NodeId user : users[static_cast<std::size_t>(value)]) {
    const graph::Node& node = graph.node(user);
    if (!graph::is_op(node, "transpose") || node.out.empty()) return node.op->name;
    return reader_of(graph, users, node.out[0]);
  }
  return "a result";
}

std::int64_t bytes_in(const graph::Graph& graph, const graph::Node& node) {
  std::int64_t bytes = 0;
  for (graph::ValueId in : node.in) {
    const TensorType& type = graph.value(in).type;
    bytes += type.shape.numel() * static_cast<std::int64_t>(size_of(type.dtype));
  }
  return bytes;
}

}  // namespace

namespace {

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

}  // namespace

PlannedStep plan_step(const graph::Graph& traced, const StatePlan& plan, int rank) {
  const auto cuts = [&](const Tensor& variable) { return cuts_in(traced, plan, variable); };
  graph::Graph local = along_model_axes(traced, plan.mesh(), cuts, rank);
  if (plan.data_ranks() > 1) {
    const graph::Partitioner::Mesh along{
        .parts = plan.data_ranks(), .first = plan.mesh().coordinate(rank, kDataAxis), .group = Symbol(kDataAxis)};
    local = graph::Partitioner(with_pieces(std::move(local), cuts, kDataAxis), along, split_inputs(traced)).run();
  }
  PlannedStep step{.local = std::move(local), .exchanges = {}};
  const auto users = step.local.users();
  for (const graph::Node& node : step.local.nodes()) {
    if (!node.op->comm) continue;
    step.exchanges.push_back({.op = node.op->name,
                              .axis = graph::comm_group(node).str(),
                              .value = label_of(node),
                              .reader = node.out.empty() ? "" : reader_of(step.local, users, node.out[0]),
                              .bytes = bytes_in(step.local, node)});
  }
  return step;
}

void expect_whole_heads(const PlannedStep& step, const StatePlan& plan) {
  for (const PlannedExchange& one : step.exchanges) {
    const bool heads = one.op == "all_gather" && one.reader == "reshape" && one.axis != kDataAxis &&
                       one.value.find("attention") != std::string::npos;
    check(!heads, "[layout] expected a number of attention heads that {}: {} divides, got others: {} would be gathered",
          one.axis, plan.mesh().size(one.axis), one.value);
  }
}

}  // namespace starling::dist
