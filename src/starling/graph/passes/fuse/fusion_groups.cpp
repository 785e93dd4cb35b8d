#include "starling/graph/passes/fuse/fusion_groups.h"

#include <algorithm>
#include <limits>

#include "starling/graph/dependencies.h"
#include "starling/graph/passes/fuse/fusion_roles.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/def/fused.h"

namespace starling::graph {
namespace {

constexpr std::size_t kMostValues = 48;  // operands and steps of a group; few are alive at once
constexpr std::size_t kMostOutputs = 8;
// Largest depth difference between members: joining distant nodes would keep values alive for long. Measured by depth,
// not by order, so that groups do not depend on the nodes in between (other logical shards).
constexpr int kDeepest = 64;
constexpr std::int64_t kLongestRow = 32768;  // elements of a row that is swept several times
constexpr std::int64_t kMostTotals = 16384;  // results of a reduction over rows, kept by every thread
constexpr std::int64_t kTotalsShare = 8;     // least number of elements per such result

class Grouping {
 public:
  Grouping(const Graph& graph, const std::vector<std::vector<NodeId>>& before)
      : graph_(graph),
        users_(graph.users()),
        is_output_(graph.values().size()),
        next_(graph.nodes().size()),
        kind_(graph.nodes().size(), FusionKind::none),
        depth_(graph.nodes().size()),
        group_of_(graph.nodes().size()),
        members_(graph.nodes().size()),
        places_(graph.nodes().size()),
        of_row_(graph.nodes().size()),
        whole_(graph.nodes().size()),
        seen_(graph.nodes().size(), -1) {
    if (comm_groups(graph).size() > 1) comm_round_ = comm_rounds(graph, before);
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
      if (!begin(id)) continue;
      // Row reductions first: they decide whether a small node belongs to rows.
      for (const bool rows : {true, false}) {
        for (ValueId in : graph_.node(id).in) {
          const NodeId producer = graph_.value(in).node;
          if (of_row_[at(producer)] == rows) join(producer, id);
        }
      }
    }
    return collect();
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  const Shape& shape(NodeId id) const { return type(graph_.node(id).out[0]).shape; }
  bool is_bool(ValueId id) const { return type(id).dtype == DType::boolean; }
  bool alone(NodeId id) const { return members_[at(group_of_[at(id)])].size() == 1; }
  const Shape& whole(NodeId id) const { return whole_[at(group_of_[at(id)])]; }

  // Dtype that the op computes in: comparisons return bool but compute in floats.
  DType work_dtype(NodeId id) const { return type(graph_.node(id).in.back()).dtype; }

  // Starts a group of this node alone; false if it cannot be fused.
  bool begin(NodeId id) {
    const FusionKind kind = fusion_kind(graph_, id);
    const DType work = kind == FusionKind::none ? DType::i64 : work_dtype(id);
    // Chains of 16-bit floats compute in f32 between their operands and results on a GPU, and run one by one elsewhere.
    const bool halves = is_half(work) && kind == FusionKind::map && graph_.node(id).device.kind == DeviceKind::cuda;
    if (kind == FusionKind::none || (work != DType::f32 && work != DType::f64 && !halves)) return false;
    if (kind == FusionKind::map && !maps_floats(id, work)) return false;
    kind_[at(id)] = kind;
    whole_[at(id)] = kind == FusionKind::reduce ? type(graph_.node(id).in[0]).shape : shape(id);
    const Shape axes = kind == FusionKind::reduce ? fusion_axes(graph_, id) : Shape{};
    places_[at(id)] = fusion_places(shape(id), whole_[at(id)], axes).value_or(Shape{});
    of_row_[at(id)] = kind == FusionKind::reduce;
    return true;
  }

  bool maps_floats(NodeId id, DType work) const {
    const Node& node = graph_.node(id);
    for (ValueId in : node.in) {
      if (type(in).dtype != work && !made_for(in, id)) return false;
    }
    return type(node.out[0]).dtype == work || only_chooses(node.out[0]);
  }

  // True for a condition made by a fusible comparison of the same shape, which then need not be stored.
  bool made_for(ValueId condition, NodeId user) const {
    const NodeId maker = graph_.value(condition).node;
    return is_bool(condition) && kind_[at(maker)] == FusionKind::map && alike(maker, user) &&
           shape(maker) == shape(user);
  }

  bool only_chooses(ValueId value) const {
    if (!is_bool(value) || is_output_[at(value)] || users_[at(value)].empty()) return false;
    const auto& users = users_[at(value)];
    return std::all_of(users.begin(), users.end(), [&](NodeId user) { return is_op(graph_.node(user), "where"); });
  }

  bool alike(NodeId a, NodeId b) const {
    const Node& x = graph_.node(a);
    const Node& y = graph_.node(b);
    const bool same_round = comm_round_.empty() || comm_round_[at(a)] == comm_round_[at(b)];
    return same_round && x.device == y.device && x.lane == y.lane && work_dtype(a) == work_dtype(b);
  }

  // Role of a node in the group of its operand's maker.
  struct Role {
    bool fits = false;
    bool of_row = false;
    Shape places{};
  };
  Role role_of(NodeId consumer, NodeId producer) const {
    const Shape& whole_shape = whole(producer);
    const Role as_it_is{whole(consumer) == whole_shape, of_row_[at(consumer)], places_[at(consumer)]};
    const FusionKind kind = kind_[at(consumer)];
    if (!of_row_[at(producer)]) {
      const bool reads_all = kind == FusionKind::map || kind == FusionKind::reduce;
      return reads_all && !(kind == FusionKind::map && of_row_[at(consumer)]) ? as_it_is : Role{};
    }
    if (kind == FusionKind::reduce) return {};
    // Rows of two groups may have the same shape but different lengths.
    if (!alone(consumer) && !(whole(consumer) == whole_shape)) return {};
    const Shape axes = row_axes_of(producer);
    // Read for every element: broadcasting must work without a reshape.
    const auto padded = padded_shape(shape(producer), whole_shape.rank());
    const bool lies_right = padded && *padded == collapsed_shape(whole_shape, axes);
    const bool stretches = shape(consumer) == whole_shape && whole_shape.numel() != shape(producer).numel();
    if (kind != FusionKind::reshape && !of_row_[at(consumer)] && stretches) return lies_right ? as_it_is : Role{};
    const bool of_these_rows = of_row_[at(consumer)] && whole(consumer) == whole_shape;
    if (kind == FusionKind::stretch || (!alone(consumer) && !of_these_rows)) return {};
    if (kind == FusionKind::map) {
      const bool same = shape(consumer) == shape(producer) &&
                        (!of_row_[at(consumer)] || places_[at(consumer)] == places_[at(producer)]);
      return {same, true, places_[at(producer)]};
    }
    const auto places = fusion_places(shape(consumer), whole_shape, axes);
    return {places.has_value(), true, places.value_or(Shape{})};
  }

  // Axes that a row node has lost.
  Shape row_axes_of(NodeId id) const {
    for (;;) {
      if (kind_[at(id)] == FusionKind::reduce) return fusion_axes(graph_, id);
      NodeId next = -1;
      for (ValueId in : graph_.node(id).in) {
        const NodeId maker = graph_.value(in).node;
        if (of_row_[at(maker)] && group_of_[at(maker)] == group_of_[at(id)]) next = maker;
      }
      if (next < 0) return {};
      id = next;
    }
  }

  void join(NodeId producer, NodeId consumer) {
    const int from = group_of_[at(producer)], into = group_of_[at(consumer)];
    if (from == into || kind_[at(producer)] == FusionKind::none || !alike(producer, consumer)) return;
    const bool needs_rows = kind_[at(producer)] == FusionKind::stretch || kind_[at(producer)] == FusionKind::reshape;
    if (needs_rows && alone(producer)) return;
    const Role role = role_of(consumer, producer);
    if (!role.fits || depth_[at(consumer)] - top(from) > kDeepest) return;
    std::vector<NodeId> all;
    std::ranges::merge(members_[at(from)], members_[at(into)], std::back_inserter(all));
    const Role before{true, of_row_[at(consumer)], places_[at(consumer)]};
    of_row_[at(consumer)] = role.of_row;
    places_[at(consumer)] = role.places;
    const auto inside = [&](NodeId id) { return group_of_[at(id)] == from || group_of_[at(id)] == into; };
    if (!runs(described(all, whole_[at(from)], inside), inside) || path_around(from, into, consumer)) {
      of_row_[at(consumer)] = before.of_row;
      places_[at(consumer)] = before.places;
      return;
    }
    for (NodeId id : all) group_of_[at(id)] = into;
    whole_[at(into)] = whole_[at(from)];
    members_[at(into)] = std::move(all);
    members_[at(from)].clear();
  }

  int top(int group) const {
    int least = std::numeric_limits<int>::max();
    for (NodeId id : members_[at(group)]) least = std::min(least, depth_[at(id)]);
    return least;
  }

  // True if kernels can run such a group in one pass.
  template <class Inside>
  bool runs(const FusionGroup& group, const Inside& inside) const {
    if (group.members.size() + group.operands.size() > kMostValues || group.outputs.size() > kMostOutputs) return false;
    bool has_rows = false;
    Shape rows;
    std::vector<NodeId> last;
    for (NodeId id : group.members) {
      if (kind_[at(id)] != FusionKind::reduce) continue;
      const auto& users = users_[at(graph_.node(id).out[0])];
      if (std::none_of(users.begin(), users.end(), inside)) {
        last.push_back(id);
        continue;
      }
      const Shape axes = fusion_axes(graph_, id);
      if (has_rows && !(axes == rows)) return false;
      has_rows = true;
      rows = axes;
    }
    if (has_rows && !rows_fit(group, rows)) return false;
    return std::all_of(last.begin(), last.end(), [&](NodeId id) {
      const Shape axes = fusion_axes(graph_, id);
      return totals_fit(group.whole, axes) && (!has_rows || all_or_none(axes, rows, group.whole));
    });
  }

  template <class Inside>
  Shape rows_of(const FusionGroup& group, const Inside& inside) const {
    for (NodeId id : group.members) {
      const auto& users = users_[at(graph_.node(id).out[0])];
      if (kind_[at(id)] == FusionKind::reduce && std::any_of(users.begin(), users.end(), inside))
        return fusion_axes(graph_, id);
    }
    return {};
  }

  bool rows_fit(const FusionGroup& group, const Shape& rows) const {
    if (!are_last(rows, group.whole)) return false;
    bool swept_again = false;
    for (NodeId id : group.members) {
      if (of_row_[at(id)]) continue;
      for (ValueId in : graph_.node(id).in) {
        const NodeId maker = graph_.value(in).node;
        const bool inside = std::binary_search(group.members.begin(), group.members.end(), maker);
        swept_again = swept_again || (inside && of_row_[at(maker)]);
        if (!inside && !even_along(type(in).shape, group.whole, rows)) return false;
      }
    }
    // Outside operands of a reduction have the whole shape; other operands of rows are read as rows.
    return !swept_again || op::reduced_count(group.whole, rows) <= static_cast<double>(kLongestRow);
  }

  // Row reductions have one total at a time.
  static bool totals_fit(const Shape& whole, const Shape& axes) {
    if (are_last(axes, whole)) return true;
    const std::int64_t results = op::reduced_shape(whole, axes, false).numel();
    return results <= kMostTotals && results * kTotalsShare <= whole.numel();
  }

  // True if a path outside connects two groups: joined, they would have to run before and after it. Groups made so far
  // count as one node each; nodes after `last` are not grouped yet and lead nowhere back.
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
  FusionGroup described(const std::vector<NodeId>& members, const Shape& whole_shape, const Inside& inside) const {
    FusionGroup group{members, {}, {}, whole_shape, {}, {}};
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
      group.places.push_back(places_[at(id)]);
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
      const auto inside = [&](NodeId node) { return group_of_[at(node)] == id; };
      FusionGroup group = described(members, whole_[at(id)], inside);
      group.rows = rows_of(group, inside);
      if (bools(group.operands) || bools(group.outputs) || group.outputs.empty() || !works(members)) continue;
      for (NodeId member : members) found.group_of[at(member)] = static_cast<int>(found.groups.size());
      found.groups.push_back(group);
    }
    return found;
  }

  // A reduction followed only by views is not worth fusing.
  bool works(const std::vector<NodeId>& members) const {
    const auto steps = std::count_if(members.begin(), members.end(), [&](NodeId id) {
      return kind_[at(id)] == FusionKind::map || kind_[at(id)] == FusionKind::reduce;
    });
    return steps >= 2;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
  std::vector<std::vector<NodeId>> next_;  // reversed dependencies
  std::vector<FusionKind> kind_;
  std::vector<int> depth_;                    // data edges from the farthest source
  std::vector<int> comm_round_;               // by node, where ranks form several groups; else empty
  std::vector<int> group_of_;                 // id of a group: one of its members
  std::vector<std::vector<NodeId>> members_;  // by group, in graph order
  std::vector<Shape> places_;                 // by node, in its group
  std::vector<bool> of_row_;                  // reductions and nodes that depend on them only
  std::vector<Shape> whole_;                  // by group
  std::vector<int> seen_;                     // number of the search that reached a group
  int round_ = 0;
};

}  // namespace

FusionGroups fusion_groups(const Graph& graph, const std::vector<std::vector<NodeId>>& before) {
  return Grouping(graph, before).run();
}

}  // namespace starling::graph
