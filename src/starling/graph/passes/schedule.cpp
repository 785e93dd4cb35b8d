#include <algorithm>
#include <queue>
#include <tuple>

#include "starling/base/error.h"
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

Lane lane_of(const std::vector<Symbol>& groups, const Node& node) {
  const auto found = std::find(groups.begin(), groups.end(), comm_group(node));
  return comm_lane(static_cast<int>(found - groups.begin()));
}

// Puts nodes that no communication waits for behind all others, so that what one group brings late holds up no other
// group. Communication of different groups then meets in any order: within a round it depends on earlier rounds only.
void defer_ends(const Graph& graph, const std::vector<std::vector<NodeId>>& before, std::vector<int>& round) {
  const int last = *std::max_element(round.begin(), round.end());
  std::vector<bool> awaited(before.size());
  for (std::size_t id = before.size(); id-- > 0;) {
    const bool needed = awaited[id] || graph.node(static_cast<NodeId>(id)).op->comm;
    if (!needed) round[id] += last + 1;
    for (NodeId first : before[id])
      awaited[static_cast<std::size_t>(first)] = awaited[static_cast<std::size_t>(first)] || needed;
  }
}

// Orders all communication as it stands in the graph: on one lane, groups that met in different orders would wait in a
// circle.
void keep_comm_order(const Graph& graph, std::vector<std::vector<NodeId>>& before) {
  NodeId last = -1;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!graph.node(id).op->comm) continue;
    if (last >= 0) before[static_cast<std::size_t>(id)].push_back(last);
    last = id;
  }
}

// Execution order: communication starts as soon as its operand exists; nodes that wait for communication come last, in
// order of arrival; updates run when their gradient is ready and still in cache.
std::vector<NodeId> choose(const Graph& graph, const std::vector<std::vector<NodeId>>& before, bool several_groups) {
  const auto count = static_cast<std::size_t>(graph.size());
  const auto users = graph.users();
  std::vector<int> arrives = comm_rounds(graph, before);
  if (several_groups) defer_ends(graph, before, arrives);
  std::vector<int> missing(count, 0);
  std::vector<std::vector<NodeId>> then(count);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    for (NodeId first : before[at]) then[static_cast<std::size_t>(first)].push_back(id);
    missing[at] = static_cast<int>(before[at].size());
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

// True if the program is recorded for a device, whose exchanges run in the order of the plan, in one lane.
bool is_recorded(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return node.device.kind == DeviceKind::cuda; });
}

Graph schedule(const Graph& graph, const PassContext& context) {
  const bool overlap = context.program.overlap && !is_recorded(graph);
  auto before = dependencies(graph);
  const std::vector<Symbol> groups = comm_groups(graph);
  check(groups.size() <= static_cast<std::size_t>(kMostCommLanes),
        "[schedule] expected a program that communicates in at most {} groups of ranks, got {}", kMostCommLanes,
        groups.size());
  if (!overlap && groups.size() > 1) keep_comm_order(graph, before);
  BranchSchedule made;
  // Branches are ordered by estimates, which differ between ranks: with several groups ranks could wait in a circle.
  if (context.program.branches > 1 && on_cpu(graph) && groups.size() <= 1)
    made = schedule_branches(graph, before, context.program.branches);
  else
    made.order = choose(graph, before, groups.size() > 1);
  Rewriter rewriter(graph);
  for (NodeId id : made.order) {
    Node& node = rewriter.to().node(rewriter.copy(id));
    node.lane = made.lane.empty() ? Lane::compute : made.lane[static_cast<std::size_t>(id)];
    if (node.op->comm) node.lane = overlap ? lane_of(groups, node) : Lane::compute;
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
