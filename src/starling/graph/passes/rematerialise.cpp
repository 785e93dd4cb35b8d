#include <algorithm>
#include <memory>
#include <optional>

#include "starling/graph/control/control_types.h"
#include "starling/graph/cost/cost.h"
#include "starling/graph/liveness.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/tensor/bytes.h"

namespace starling::graph::passes {
namespace {

constexpr double kSmall = 1 << 12;  // bytes that are free to keep
constexpr NodeId kKept = -1;
constexpr int kDeepest = 8;  // depth of operands recomputed with a value

std::size_t at(int id) { return static_cast<std::size_t>(id); }

// Graph in which some nodes run twice: readers behind a node's `cut` use a repetition of it, made when the first of
// them needs it. Operands of the repetition are repeated too, if their own cut has passed.
class Repeater {
 public:
  Repeater(const Graph& graph, const std::vector<NodeId>& cuts)
      : graph_(graph), cuts_(cuts), rewriter_(graph), again_(graph.values().size(), -1) {}

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      const auto in = operands(node, id);
      const NodeId made = rewriter_.emit(*node.op, {in.data(), in.size()}, node.attrs, id);
      name(made, id);
      rewriter_.stands_for(id, made);
      for (std::size_t i = 0; i < node.out.size(); ++i) {
        const ValueId fresh = rewriter_.to().node(made).out[i];
        rewriter_.to().value(fresh).layouts = graph_.value(node.out[i]).layouts;
        rewriter_.set(node.out[i], fresh);
      }
    }
    return rewriter_.finish();
  }

  // By new node: the old node it stands for, and its position in the old order.
  const std::vector<NodeId>& stands_for() const { return old_; }
  const std::vector<NodeId>& runs_at() const { return time_; }

 private:
  void name(NodeId made, NodeId old) {
    old_.resize(at(made) + 1, old);
    time_.resize(at(made) + 1, now_ >= 0 ? now_ : old);
  }

  SmallVector<ValueId, 4> operands(const Node& node, NodeId reader) {
    SmallVector<ValueId, 4> in;
    for (ValueId id : node.in) in.push_back(resolve(id, reader));
    return in;
  }

  ValueId resolve(ValueId id, NodeId reader) {
    const NodeId maker = graph_.value(id).node;
    const Node& node = graph_.node(maker);
    const bool repeated = cuts_[at(maker)] != kKept && reader > cuts_[at(maker)];
    if (!repeated && !node.op->view) return rewriter_.map(id);
    if (again_[at(id)] >= 0) return again_[at(id)];
    const auto in = operands(node, reader);
    if (!repeated && in[0] == rewriter_.map(node.in[0])) return rewriter_.map(id);  // view of a value still there
    const NodeId made = rewriter_.emit(*node.op, {in.data(), in.size()}, node.attrs, maker);
    rewriter_.to().node(made).lane = graph_.node(reader).lane;
    now_ = reader;
    name(made, maker);
    now_ = -1;
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      again_[at(node.out[i])] = rewriter_.to().node(made).out[i];
      rewriter_.to().value(again_[at(node.out[i])]).layouts = graph_.value(node.out[i]).layouts;
    }
    return again_[at(id)];
  }

  const Graph& graph_;
  const std::vector<NodeId>& cuts_;
  Rewriter rewriter_;
  std::vector<ValueId> again_;  // repetition of each old value
  std::vector<NodeId> old_, time_;
  NodeId now_ = -1;
};

// Nodes of the original graph to be repeated for readers behind `cut`: one whose result is kept for long, and those
// whose results it reads but nobody keeps.
struct Choice {
  std::vector<NodeId> nodes;
  NodeId cut = -1;
  double score = 0;
};

// Graph with repetitions, and its memory use.
class Attempt {
 public:
  Attempt(const Graph& old, const std::vector<NodeId>& cuts) : Attempt(cuts, Repeater(old, cuts)) {}

  Graph& graph() { return graph_; }
  std::size_t peak_bytes() const { return live_.peak_bytes(); }
  // True if the peak is lower, or equal with less memory in total.
  bool better_than(const Attempt& other) const {
    return std::pair(peak_bytes(), load_) < std::pair(other.peak_bytes(), other.load_);
  }

  // Best value to drop before the peak and recompute after it: the most bytes, for the longest time, for the least
  // work.
  std::optional<Choice> best(const std::vector<double>& flops, const std::vector<bool>& banned) const {
    std::optional<Choice> best;
    for (NodeId id = 0; id < live_.peak(); ++id) {
      if (banned[at(old_[at(id)])] || cuts_[at(old_[at(id)])] != kKept) continue;
      const auto choice = consider(id, flops);
      if (choice && (!best || choice->score > best->score)) best = choice;
    }
    return best;
  }

 private:
  Attempt(const std::vector<NodeId>& cuts, Repeater repeater)
      : cuts_(cuts),
        graph_(repeater.run()),
        old_(repeater.stands_for()),
        time_(repeater.runs_at()),
        live_(graph_),
        uses_(graph_.values().size()) {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      for (ValueId in : node.in) uses_[at(live_.root(in))].push_back(id);
      if (is_op(node, "assign")) assigns_.emplace_back(source_index(node), graph_.value(node.in[0]).node);
    }
    for (ValueId out : graph_.outputs) uses_[at(live_.root(out))].push_back(graph_.size());
    for (std::size_t bytes : live_.bytes()) load_ += static_cast<double>(bytes);
  }

  // True for nodes without effects whose result depends on operands only; random ops depend on their key.
  bool repeatable(const Node& node) const {
    // The cost of a loop is unknown here.
    return !is_source(node) && !is_control(*node.op) && !has_effects(graph_, node) && !node.op->view &&
           !node.op->measure && node.after.empty() && !node.out.empty();
  }

  std::optional<Choice> consider(NodeId id, const std::vector<double>& flops) const {
    const Node& node = graph_.node(id);
    if (!repeatable(node)) return std::nullopt;
    const NodeId peak = live_.peak();
    NodeId early = id, again = graph_.size();
    double freed = 0;
    for (ValueId out : node.out) {
      for (NodeId user : uses_[at(out)]) {
        if (user == peak || user == graph_.size()) return std::nullopt;  // needed there anyway
        if (user < peak) early = std::max(early, user);
        if (user > peak) again = std::min(again, user);
      }
      freed += across(out, peak);
    }
    if (again == graph_.size()) return std::nullopt;
    Price price;
    if (!add(id, again, 0, flops, price) || freed <= price.kept + kSmall) return std::nullopt;
    // Repetitions at the peak belong to the node that requested them, which reads late.
    const bool repetition = old_[at(peak)] != time_[at(peak)];
    return Choice{std::move(price.nodes), repetition ? time_[at(peak)] - 1 : time_[at(peak)],
                  (freed - price.kept) * (again - early) / (1 + price.flops)};
  }

  // Bytes of a result at the peak.
  double across(ValueId out, NodeId peak) const {
    const int life = live_.life_of(out);
    if (life < 0) return 0;
    const Life& memory = live_.lives()[at(life)];
    const auto& uses = uses_[at(out)];
    const bool late = !uses.empty() && uses.back() > peak;
    return late && memory.first <= peak ? static_cast<double>(memory.bytes) : 0;
  }

  struct Price {
    std::vector<NodeId> nodes;
    double kept = 0;  // bytes of operands kept alive across the peak for this alone
    double flops = 0;
  };

  // Adds the cost of repeating a node at `again`. False if an operand is lost: its variable has another value by then.
  bool add(NodeId id, NodeId again, int depth, const std::vector<double>& flops, Price& price) const {
    price.nodes.push_back(old_[at(id)]);
    price.flops += flops[at(old_[at(id)])];
    for (ValueId in : graph_.node(id).in) {
      const ValueId root = live_.root(in);
      const NodeId made = graph_.value(root).node;
      const Node& maker = graph_.node(made);
      const NodeId old = old_[at(made)];
      const auto bytes = static_cast<double>(bytes_of(graph_.value(root).type));
      const bool chosen = std::find(price.nodes.begin(), price.nodes.end(), old) != price.nodes.end();
      if (bytes <= kSmall || chosen || cuts_[at(old)] != kKept) continue;  // small, or recomputed
      const auto overwritten = [&](const auto& a) { return a.first == source_index(maker) && a.second < again; };
      if (is_op(maker, "variable") && std::any_of(assigns_.begin(), assigns_.end(), overwritten)) return false;
      if (is_source(maker)) continue;
      if (live_.life_of(root) < 0) return false;  // lies in a variable or a result
      if (uses_[at(root)].back() > live_.peak()) continue;
      const bool again_too = depth < kDeepest && repeatable(maker) && old == time_[at(made)];
      if (!again_too)
        price.kept += bytes;
      else if (!add(made, again, depth + 1, flops, price))
        return false;
    }
    return true;
  }

  std::vector<NodeId> cuts_;
  Graph graph_;
  std::vector<NodeId> old_, time_;
  Liveness live_;
  std::vector<std::vector<NodeId>> uses_;                 // by root, including views, ascending
  std::vector<std::pair<std::int64_t, NodeId>> assigns_;  // variable, and the maker of its new value
  double load_ = 0;                                       // bytes in use, summed over all nodes
};

Graph rematerialise(const Graph& graph, const PassContext& context) {
  if (context.program.memory_budget == 0) return graph;
  std::vector<double> flops;
  for (NodeId id = 0; id < graph.size(); ++id) flops.push_back(cost_of(graph, id).flops);
  std::vector<NodeId> cuts(graph.nodes().size(), kKept);
  std::vector<bool> banned(graph.nodes().size());
  auto now = std::make_unique<Attempt>(graph, cuts);
  while (now->peak_bytes() > context.program.memory_budget) {
    const auto choice = now->best(flops, banned);
    if (!choice) break;
    for (NodeId id : choice->nodes) cuts[at(id)] = choice->cut;
    auto next = std::make_unique<Attempt>(graph, cuts);
    if (next->better_than(*now)) {
      now = std::move(next);
      continue;
    }
    for (NodeId id : choice->nodes) cuts[at(id)] = kKept;
    banned[at(choice->nodes[0])] = true;
  }
  return std::move(now->graph());
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_rematerialise(PassTable& table) {
  table.add({.name = "rematerialise",
             .doc = "compute values again instead of keeping them, where memory is bounded",
             .order = 2300,
             .budgeted = true,
             .run = passes::rematerialise});
}

}  // namespace starling::graph
