#include <algorithm>
#include <queue>
#include <tuple>

#include "starling/graph/control/branches.h"
#include "starling/graph/dependencies.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"

namespace starling::graph::passes {
namespace {

bool only_assigned(const Graph& graph, const std::vector<std::vector<NodeId>>& users, const Node& node) {
  if (is_op(node, "assign")) return true;
  if (node.out.empty()) return false;
  for (ValueId out : node.out) {
    if (users[static_cast<std::size_t>(out)].empty()) return false;
    for (NodeId user : users[static_cast<std::size_t>(out)]) {
      if (!is_op(graph.node(user), "assign")) return false;
    }
  }
  return true;
}

// Execution order: communication starts as soon as its operand exists; nodes that wait for communication come last, in
// order of arrival; updates run when their gradient is ready and still in cache.
std::vector<NodeId> choose(const Graph& graph, const std::vector<std::vector<NodeId>>& before) {
  const auto count = static_cast<std::size_t>(graph.size());
  const auto users = graph.users();
  std::vector<int> arrives(count, 0);  // latest collective that the node waits for, counted from 1
  std::vector<int> missing(count, 0);
  std::vector<std::vector<NodeId>> then(count);
  int collectives = 0;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    for (NodeId first : before[at]) {
      arrives[at] = std::max(arrives[at], arrives[static_cast<std::size_t>(first)]);
      then[static_cast<std::size_t>(first)].push_back(id);
      ++missing[at];
    }
    if (graph.node(id).op->comm) arrives[at] = ++collectives;
  }
  using Key = std::tuple<int, int, NodeId>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  const auto push = [&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.op->comm) {
      ready.emplace(0, 0, id);
      return;
    }
    const int kind = is_source(node) ? 0 : only_assigned(graph, users, node) ? 1 : 2;
    ready.emplace(arrives[static_cast<std::size_t>(id)], kind, id);
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (missing[static_cast<std::size_t>(id)] == 0) push(id);
  }
  std::vector<NodeId> chosen;
  while (!ready.empty()) {
    const NodeId id = std::get<2>(ready.top());
    ready.pop();
    chosen.push_back(id);
    for (NodeId next : then[static_cast<std::size_t>(id)]) {
      if (--missing[static_cast<std::size_t>(next)] == 0) push(next);
    }
  }
  return chosen;
}

// True if all nodes run on the CPU: other devices order their work themselves, and only CPUs have lanes for branches.
bool on_cpu(const Graph& graph) {
  return std::all_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.device.kind == DeviceKind::cpu; });
}

Graph schedule(const Graph& graph, const PassContext& context) {
  const auto before = dependencies(graph);
  BranchSchedule made;
  if (context.program.branches > 1 && on_cpu(graph))
    made = schedule_branches(graph, before, context.program.branches);
  else
    made.order = choose(graph, before);
  Rewriter rewriter(graph);
  for (NodeId id : made.order) {
    Node& node = rewriter.to().node(rewriter.copy(id));
    node.lane = made.lane.empty() ? Lane::compute : made.lane[static_cast<std::size_t>(id)];
    if (node.op->comm) node.lane = context.program.overlap ? Lane::comm : Lane::compute;
  }
  return rewriter.finish();
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_schedule(PassTable& table) {
  table.add({.name = "schedule",
             .doc = "choose order and lanes, so that communication hides behind compute",
             .order = 2200,
             .run = passes::schedule});
}

}  // namespace starling::graph
