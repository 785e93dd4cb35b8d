#include "starling/graph/control/branches.h"

#include <algorithm>
#include <queue>

#include "starling/graph/cost/cost.h"

namespace starling::graph {
namespace {

// Rates of one thread of an ordinary machine, in µs: only their ratios matter.
constexpr double kFlopsPerUs = 3e4;
constexpr double kBytesPerUs = 1e4;
constexpr double kCall = 0.3;
constexpr double kHandOver = 3;

bool runs_nothing(const Node& node) { return is_source(node) || is_op(node, "assign") || node.op->view; }

class Branches {
 public:
  Branches(const Graph& graph, const std::vector<std::vector<NodeId>>& before, int branches)
      : graph_(graph),
        before_(before),
        then_(before.size()),
        cost_(before.size()),
        rank_(before.size()),
        missing_(before.size()),
        finish_(before.size()),
        free_(static_cast<std::size_t>(branches)) {
    made_.lane.resize(before.size(), Lane::compute);
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (NodeId first : before[at(id)]) {
        then_[at(first)].push_back(id);
        ++missing_[at(id)];
      }
      if (runs_nothing(graph.node(id))) continue;
      const Cost cost = cost_of(graph, id);
      cost_[at(id)] = kCall + std::max(cost.flops / kFlopsPerUs, cost.bytes() / kBytesPerUs);
    }
    for (NodeId id = graph.size() - 1; id >= 0; --id) {
      for (NodeId next : then_[at(id)]) rank_[at(id)] = std::max(rank_[at(id)], rank_[at(next)]);
      rank_[at(id)] += cost_[at(id)];
    }
  }

  BranchSchedule run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (missing_[at(id)] == 0) push(id);
    }
    while (!ready_.empty()) {
      const NodeId id = -ready_.top().second;
      ready_.pop();
      place(id);
      made_.order.push_back(id);
      for (NodeId next : then_[at(id)]) {
        if (--missing_[at(next)] == 0) push(next);
      }
    }
    return std::move(made_);
  }

 private:
  static std::size_t at(NodeId id) { return static_cast<std::size_t>(id); }
  void push(NodeId id) { ready_.emplace(rank_[at(id)], -id); }

  double start_on(NodeId id, Lane lane) const {
    double start = 0;
    for (NodeId first : before_[at(id)]) {
      const bool crosses = made_.lane[at(first)] != lane && !is_source(graph_.node(first));
      start = std::max(start, finish_[at(first)] + (crosses ? kHandOver : 0));
    }
    return start;
  }

  void place(NodeId id) {
    const Node& node = graph_.node(id);
    Lane& lane = made_.lane[at(id)];
    if (node.op->comm) {
      lane = Lane::comm;
      finish_[at(id)] = start_on(id, lane) + cost_[at(id)];
    } else if (runs_nothing(node)) {
      if (!node.in.empty()) lane = made_.lane[at(graph_.value(node.in[0]).node)];
      if (lane == Lane::comm) lane = Lane::compute;  // a non-trivial copy is compute
      finish_[at(id)] = start_on(id, lane);
    } else {
      const std::size_t number = node.op->stateful ? 0 : soonest(id);
      lane = compute_lane(static_cast<int>(number));
      free_[number] = finish_[at(id)] = std::max(free_[number], start_on(id, lane)) + cost_[at(id)];
    }
  }

  std::size_t soonest(NodeId id) const {
    std::size_t best = 0;
    double earliest = 0;
    for (std::size_t number = 0; number < free_.size(); ++number) {
      const double start = std::max(free_[number], start_on(id, compute_lane(static_cast<int>(number))));
      if (number > 0 && start >= earliest) continue;
      best = number;
      earliest = start;
    }
    return best;
  }

  const Graph& graph_;
  const std::vector<std::vector<NodeId>>& before_;
  std::vector<std::vector<NodeId>> then_;
  std::vector<double> cost_;  // µs
  std::vector<double> rank_;  // length of the longest chain from here to the end
  std::vector<int> missing_;
  std::vector<double> finish_;
  std::vector<double> free_;  // time at which each compute lane becomes free
  std::priority_queue<std::pair<double, NodeId>> ready_;
  BranchSchedule made_;
};

}  // namespace

BranchSchedule schedule_branches(const Graph& graph, const std::vector<std::vector<NodeId>>& before, int branches) {
  return Branches(graph, before, branches).run();
}

}  // namespace starling::graph
