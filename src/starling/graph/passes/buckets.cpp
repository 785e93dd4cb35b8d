#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "starling/graph/control/control_types.h"
#include "starling/graph/dependencies.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/api/comm.h"
#include "starling/ops/def/attrs/coded.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"

// Exchanges of a group of ranks that become ready one after another share one: reductions, scatters of gradients and
// gathers of updated weights. The pass runs before any that looks at the shapes of this rank's pieces, and uses the
// shapes of whole values only, which all ranks share: so every rank makes the same buckets in the same order, whatever
// rows it holds.
namespace starling::graph::passes {
namespace {

// Larger tensors go alone: copying them into a bucket costs more than an exchange.
constexpr std::size_t kAlone = 1 << 20;

struct Bucket {
  std::vector<NodeId> members{};
  std::size_t bytes = 0;
  NodeId ready = -1;     // node after which all operands are ready
  NodeId until = -1;     // node before which all results are needed
  bool waited = false;   // another collective needs a result
  bool is_open = false;  // accepts more tensors
};

// Of the whole tensor, which all ranks have alike.
std::size_t bytes_of(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return bytes_of(graph.value(is_op(node, "reduce_scatter") ? node.in[0] : node.out[0]).type);
}

// Attributes that exchanges in one bucket share.
Attrs common_attrs(const Node& node) {
  if (is_op(node, "reduce_scatter")) return op::JoinedPiecesAttrs::of_scatter(node.attrs.as<op::PiecesAttrs>());
  if (is_op(node, "all_gather")) return op::JoinedPiecesAttrs::of_gather(node.attrs.as<op::PiecesAttrs>());
  Attrs attrs = node.attrs;
  if (const auto* field = attrs.find("name")) attrs.get<Symbol>(*field) = Symbol();
  return attrs;
}

bool alike(const Graph& graph, NodeId a, NodeId b) {
  const Node &first = graph.node(a), &second = graph.node(b);
  return first.op == second.op && first.device == second.device && first.in.size() == second.in.size() &&
         graph.value(first.out[0]).type.dtype == graph.value(second.out[0]).type.dtype &&
         common_attrs(first) == common_attrs(second);
}

// Gathers that other exchanges wait for are joined by `partition`, which limits how many of their results are alive.
bool may_be_joined(const Node& node, bool waited) {
  if (!node.after.empty()) return false;
  if (is_op(node, "ordered_sum")) return node.out.size() == 1;
  if (is_op(node, "coded_reduce")) return node.attrs.as<op::CodedReduceAttrs>().tensors == 1;
  if (is_op(node, "reduce_scatter")) return node.attrs.as<op::PiecesAttrs>().reduce == ReduceOp::sum;
  if (is_op(node, "all_gather")) return !waited;
  return is_op(node, "all_reduce");
}

// Op of a bucket of several nodes like this one.
const OpDef& joined_op(const Node& like) {
  if (is_op(like, "all_reduce")) return named_op<"all_reduce_many">();
  if (is_op(like, "reduce_scatter")) return named_op<"reduce_scatter_many">();
  if (is_op(like, "all_gather")) return named_op<"all_gather_many">();
  return *like.op;
}

// A node that costs little and may run late: nothing is held up when what it needs comes later. Nodes that some ranks
// have in place of others (Partitioner::stand_ins) are none, on no rank.
bool may_run_late(const Node& node) {
  return !node.in.empty() && (node.op->elementwise() || node.op->view || is_op(node, "assign"));
}

class Grouping {
 public:
  Grouping(const Graph& graph, const PassContext& context)
      : graph_(graph),
        before_(dependencies(graph, CommOrder::free)),
        cap_(context.program.bucket_bytes),
        first_cap_(context.program.first_bucket_bytes),
        waited_(needed_by_collectives()),
        until_(first_needs()) {}

  std::vector<Bucket> run() {
    for (NodeId id : in_order_of_readiness()) add(id);
    std::stable_sort(buckets_.begin(), buckets_.end(), [](const auto& a, const auto& b) { return a.ready < b.ready; });
    return std::move(buckets_);
  }

  const std::vector<std::vector<NodeId>>& before() const { return before_; }

 private:
  static std::size_t at(NodeId id) { return static_cast<std::size_t>(id); }

  std::vector<bool> needed_by_collectives() const {
    std::vector<bool> made(graph_.nodes().size());
    for (NodeId id = graph_.size() - 1; id >= 0; --id) {
      const Node& node = graph_.node(id);
      if (!node.op->comm && !made[at(id)]) continue;
      for (NodeId first : before_[at(id)]) made[at(first)] = true;
    }
    return made;
  }

  // By node: the first one that is held up where this one's results come later.
  std::vector<NodeId> first_needs() const {
    std::vector<NodeId> needs(graph_.nodes().size(), graph_.size());
    for (NodeId id = graph_.size() - 1; id >= 0; --id) {
      const Node& node = graph_.node(id);
      const NodeId own = node.op->comm ? ready(id) : may_run_late(node) ? needs[at(id)] : id;
      for (NodeId first : before_[at(id)]) needs[at(first)] = std::min(needs[at(first)], own);
    }
    return needs;
  }

  NodeId ready(NodeId id) const {
    const auto& before = before_[at(id)];
    return before.empty() ? -1 : *std::max_element(before.begin(), before.end());
  }

  std::vector<NodeId> in_order_of_readiness() const {
    std::vector<NodeId> found;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (graph_.node(id).op->comm) found.push_back(id);
    }
    std::stable_sort(found.begin(), found.end(), [&](NodeId a, NodeId b) { return ready(a) < ready(b); });
    return found;
  }

  void add(NodeId id) {
    const std::size_t bytes = bytes_of(graph_, id);
    const bool waited = waited_[at(id)], joins = may_be_joined(graph_.node(id), waited) && bytes < kAlone;
    Bucket* bucket = joins ? open(id, bytes) : nullptr;
    if (!bucket) {
      buckets_.push_back({.until = until_[at(id)], .waited = waited, .is_open = joins});
      bucket = &buckets_.back();
    }
    bucket->members.push_back(id);
    bucket->bytes += bytes;
    bucket->ready = std::max(bucket->ready, ready(id));
    bucket->until = std::min(bucket->until, until_[at(id)]);
  }

  // A reduction that no collective waits for may be delayed until a bucket is full; the first bucket fills early, so
  // that the exchange overlaps with much of the compute. One that a collective waits for may be delayed as long as
  // nothing is held up: so no bucket waits for one that waits for it.
  Bucket* open(NodeId id, std::size_t bytes) {
    int earlier = 0;
    for (Bucket& bucket : buckets_) {
      if (bucket.waited != waited_[at(id)] || !alike(graph_, bucket.members[0], id)) continue;
      const std::size_t cap = earlier++ == 0 ? first_cap_ : cap_;
      if (!bucket.is_open || (bucket.waited && ready(id) >= bucket.until)) continue;
      if (bucket.bytes + bytes <= cap) return &bucket;
      bucket.is_open = false;
    }
    return nullptr;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> before_;
  std::size_t cap_, first_cap_;  // bytes of a bucket
  std::vector<bool> waited_;
  std::vector<NodeId> until_;
  std::vector<Bucket> buckets_;
};

// Joins every bucket into one node right after the last of its operands, with the collectives in the order of the
// buckets.
class Joining {
 public:
  Joining(const Graph& graph, const std::vector<Bucket>& buckets, const std::vector<std::vector<NodeId>>& before)
      : graph_(graph), buckets_(buckets), rewriter_(graph), unit_(graph.nodes().size()) {
    std::iota(unit_.begin(), unit_.end(), 0);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      for (NodeId member : buckets[b].members) unit_[at(member)] = graph.size() + static_cast<int>(b);
    }
    then_.resize(graph.nodes().size() + buckets.size());
    missing_.resize(then_.size());
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (NodeId first : before[at(id)]) edge(unit_[at(first)], unit_[at(id)]);
    }
    chain_groups();
  }

  Graph run() {
    const std::vector<int> order = sorted();
    if (order.size() < units()) return graph_;  // no valid order: leave the graph unchanged
    for (int unit : order) {
      if (unit < graph_.size())
        rewriter_.copy(unit);
      else
        emit(buckets_[static_cast<std::size_t>(unit - graph_.size())]);
    }
    return rewriter_.finish();
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  // Orders the collectives of each group of ranks among themselves.
  void chain_groups() {
    std::map<const std::string*, int> last;
    for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) {
      const int unit = graph_.size() + b;
      const auto [earlier, first] = last.try_emplace(&comm_group(graph_.node(buckets_[at(b)].members[0])).str(), unit);
      if (!first) edge(std::exchange(earlier->second, unit), unit);
    }
  }

  std::size_t units() const {
    std::size_t joined = 0;
    for (const auto& bucket : buckets_) joined += bucket.members.size();
    return graph_.nodes().size() - joined + buckets_.size();
  }

  void edge(int from, int to) {
    if (from == to) return;
    then_[at(from)].push_back(to);
    ++missing_[at(to)];
  }

  std::vector<int> sorted() {
    using Key = std::pair<int, int>;  // twice the position in the old order, and the unit
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    const auto push = [&](int unit) {
      const int place =
          unit < graph_.size() ? 2 * unit : 2 * buckets_[static_cast<std::size_t>(unit - graph_.size())].ready + 1;
      ready.emplace(place, unit);
    };
    const auto is_unit = [&](int i) { return i >= graph_.size() || unit_[at(i)] == i; };
    for (int i = 0; i < static_cast<int>(then_.size()); ++i) {
      if (is_unit(i) && missing_[at(i)] == 0) push(i);
    }
    std::vector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top().second);
      ready.pop();
      for (int next : then_[at(order.back())]) {
        if (--missing_[at(next)] == 0) push(next);
      }
    }
    return order;
  }

  void emit(const Bucket& bucket) {
    const NodeId first = bucket.members[0];
    if (bucket.members.size() == 1) {
      rewriter_.copy(first);
      return;
    }
    std::vector<ValueId> in;
    for (NodeId member : bucket.members) {
      for (ValueId value : graph_.node(member).in) in.push_back(rewriter_.map(value));
    }
    const Node& like = graph_.node(first);
    const NodeId made = rewriter_.emit(joined_op(like), in, joined_attrs(like, bucket.members.size()), first);
    std::size_t next = 0;
    for (NodeId member : bucket.members) {
      for (ValueId old : graph_.node(member).out) {
        const ValueId fresh = rewriter_.to().node(made).out[next++];
        rewriter_.set(old, fresh);
        rewriter_.to().value(fresh).layouts = graph_.value(old).layouts;
        rewriter_.to().value(fresh).name = graph_.value(old).name;
      }
    }
  }

  static Attrs joined_attrs(const Node& like, std::size_t members) {
    const Symbol first = like.attrs.get<Symbol>(*like.attrs.find("name"));
    Attrs attrs = common_attrs(like);
    attrs.get<Symbol>(*attrs.find("name")) = Symbol(fmt::format("{} and {} more", first.str(), members - 1));
    if (const auto* tensors = attrs.find("tensors"))
      attrs.get<std::int64_t>(*tensors) = static_cast<std::int64_t>(members);
    return attrs;
  }

  const Graph& graph_;
  const std::vector<Bucket>& buckets_;
  Rewriter rewriter_;
  std::vector<int> unit_;  // the node itself, or its bucket, numbered from the number of nodes on
  std::vector<std::vector<int>> then_;
  std::vector<int> missing_;
};

// Collectives written by users stay where they are: ranks may reach them by different paths.
Graph buckets(const Graph& graph, const PassContext& context) {
  if (context.world == 1 && context.shards == 0) return graph;
  Grouping grouping(graph, context);
  const std::vector<Bucket> made = grouping.run();
  if (made.empty()) return graph;
  return Joining(graph, made, grouping.before()).run();
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_buckets(PassTable& table) {
  table.add({.name = "buckets",
             .doc = "reduce small gradients together, in the order in which they become ready",
             .order = 500,
             .run = passes::buckets});
}

}  // namespace starling::graph
