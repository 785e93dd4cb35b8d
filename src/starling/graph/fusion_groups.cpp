#include "starling/graph/fusion_groups.h"

#include <algorithm>
#include <limits>

#include "starling/ops/fused.h"

namespace starling {
namespace {

constexpr std::size_t kMostValues = 30;  // operands and steps of a group: what stays in L1 together
constexpr std::size_t kMostOutputs = 8;
// Steps from the sources of the graph between members: joining far ones would hold values for long. Counted in depth,
// not in place, so that groups are the same whatever stands between the nodes (other logical shards).
constexpr int kDeepest = 64;

class Grouping {
 public:
  Grouping(const Graph& graph, const std::vector<std::vector<NodeId>>& before)
      : graph_(graph),
        users_(graph.users()),
        is_output_(graph.values().size()),
        next_(graph.nodes().size()),
        fusible_(graph.nodes().size()),
        depth_(graph.nodes().size()),
        group_of_(graph.nodes().size()),
        members_(graph.nodes().size()),
        seen_(graph.nodes().size(), -1) {
    for (ValueId id : graph.outputs) is_output_[at(id)] = true;
    for (NodeId id = 0; id < graph.size(); ++id) {
      group_of_[at(id)] = id;
      members_[at(id)] = {id};
      for (ValueId in : graph.node(id).in)
        depth_[at(id)] = std::max(depth_[at(id)], depth_[at(graph.value(in).node)] + 1);
      for (NodeId first : before[at(id)]) next_[at(first)].push_back(id);
    }
  }

  FusionGroups run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      fusible_[at(id)] = fusible(id);
      if (!fusible_[at(id)]) continue;
      for (ValueId in : graph_.node(id).in) join(graph_.value(in).node, id);
    }
    return collect();
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  const Shape& shape(NodeId id) const { return type(graph_.node(id).out[0]).shape; }
  bool is_bool(ValueId id) const { return type(id).dtype == DType::boolean; }

  // What the op computes in: comparisons give bool, but of floats.
  DType work_dtype(NodeId id) const { return type(graph_.node(id).in.back()).dtype; }

  bool fusible(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!node.op->elementwise() || node.op->attrs->fields.size() > FusedStep::kMaxAttributes) return false;
    if (node.op->stateful || node.op->random) return false;
    if (!node.after.empty() || node.in.empty() || node.out.size() != 1) return false;
    const DType work = work_dtype(id);
    if (work != DType::f32 && work != DType::f64) return false;
    for (ValueId in : node.in) {
      if (type(in).dtype != work && !made_for(in, id)) return false;
    }
    return type(node.out[0]).dtype == work || only_chooses(node.out[0]);
  }

  // A condition that a fusible comparison of the same shape makes, so that it need not be stored.
  bool made_for(ValueId condition, NodeId user) const {
    const NodeId maker = graph_.value(condition).node;
    return is_bool(condition) && fusible_[at(maker)] && alike(maker, user);
  }

  bool only_chooses(ValueId value) const {
    if (!is_bool(value) || is_output_[at(value)] || users_[at(value)].empty()) return false;
    const auto& users = users_[at(value)];
    return std::all_of(users.begin(), users.end(), [&](NodeId user) { return is_op(graph_.node(user), "where"); });
  }

  bool alike(NodeId a, NodeId b) const {
    const Node& x = graph_.node(a);
    const Node& y = graph_.node(b);
    return x.device == y.device && x.lane == y.lane && shape(a) == shape(b) && work_dtype(a) == work_dtype(b);
  }

  void join(NodeId producer, NodeId consumer) {
    const int from = group_of_[at(producer)], into = group_of_[at(consumer)];
    if (from == into || !fusible_[at(producer)] || !alike(producer, consumer)) return;
    if (depth_[at(consumer)] - top(from) > kDeepest || !fits(from, into) || path_around(from, into, consumer)) return;
    std::vector<NodeId> all;
    std::ranges::merge(members_[at(from)], members_[at(into)], std::back_inserter(all));
    for (NodeId id : all) group_of_[at(id)] = into;
    members_[at(into)] = std::move(all);
    members_[at(from)].clear();
  }

  int top(int group) const {
    int least = std::numeric_limits<int>::max();
    for (NodeId id : members_[at(group)]) least = std::min(least, depth_[at(id)]);
    return least;
  }

  bool fits(int from, int into) const {
    std::vector<NodeId> all;
    std::ranges::merge(members_[at(from)], members_[at(into)], std::back_inserter(all));
    const FusionGroup group =
        described(all, [&](NodeId id) { return group_of_[at(id)] == from || group_of_[at(id)] == into; });
    return group.members.size() + group.operands.size() <= kMostValues && group.outputs.size() <= kMostOutputs;
  }

  // Whether something outside stands between two groups: joined, they would have to run before and after it. Groups
  // made so far count as one node each; nodes behind `last` are not in groups yet and lead nowhere back.
  bool path_around(int from, int into, NodeId last) {
    ++round_;
    std::vector<int> open;
    const auto follow = [&](int group, bool first) {
      for (NodeId id : members_[at(group)]) {
        for (NodeId next : next_[at(id)]) {
          const int to = group_of_[at(next)];
          if (next > last || to == group || seen_[at(to)] == round_) continue;
          if (to == into && first) continue;
          seen_[at(to)] = round_;
          open.push_back(to);
        }
      }
    };
    follow(from, true);
    while (!open.empty()) {
      const int group = open.back();
      open.pop_back();
      if (group == into) return true;
      follow(group, false);
    }
    return false;
  }

  template <class Inside>
  FusionGroup described(const std::vector<NodeId>& members, const Inside& inside) const {
    FusionGroup group{members, {}, {}};
    const auto add = [](std::vector<ValueId>& list, ValueId id) {
      if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
    };
    for (NodeId id : members) {
      for (ValueId in : graph_.node(id).in) {
        if (!inside(graph_.value(in).node)) add(group.operands, in);
      }
      const ValueId out = graph_.node(id).out[0];
      const auto& users = users_[at(out)];
      if (is_output_[at(out)] || !std::all_of(users.begin(), users.end(), inside)) add(group.outputs, out);
    }
    return group;
  }

  FusionGroups collect() const {
    FusionGroups found{{}, std::vector<int>(graph_.nodes().size(), -1)};
    const auto bools = [&](const std::vector<ValueId>& list) {
      return std::any_of(list.begin(), list.end(), [&](ValueId id) { return is_bool(id); });
    };
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const auto& members = members_[at(id)];
      if (members.size() < 2) continue;
      const FusionGroup group = described(members, [&](NodeId node) { return group_of_[at(node)] == id; });
      if (bools(group.operands) || bools(group.outputs) || group.outputs.empty()) continue;
      for (NodeId member : members) found.group_of[at(member)] = static_cast<int>(found.groups.size());
      found.groups.push_back(group);
    }
    return found;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
  std::vector<std::vector<NodeId>> next_;  // the dependencies, turned around
  std::vector<bool> fusible_;
  std::vector<int> depth_;                    // data edges from the farthest source
  std::vector<int> group_of_;                 // a group has the number of one of its members
  std::vector<std::vector<NodeId>> members_;  // of each group, in the order of the graph
  std::vector<int> seen_;                     // by which search a group was found
  int round_ = 0;
};

}  // namespace

FusionGroups fusion_groups(const Graph& graph, const std::vector<std::vector<NodeId>>& before) {
  return Grouping(graph, before).run();
}

}  // namespace starling
