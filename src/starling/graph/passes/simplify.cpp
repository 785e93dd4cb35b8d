#include <unordered_map>

#include "starling/graph/match.h"
#include "starling/graph/pass.h"
#include "starling/graph/passes/prune.h"
#include "starling/graph/passes/simplify/rules.h"
#include "starling/ops/def/registry.h"

// Algebraic rewrites valid for every value. Preserved: NaN and infinities (so x · 0, x - x, x / x and e^(log x) are
// kept), and every element within 1e-5 (f32) and 1e-11 (f64). Not preserved: the sign of a zero, and intermediate
// overflow or underflow, which may vanish but is never added.
namespace starling::graph::passes {
namespace {

constexpr int kMostRounds = 8;

class RuleTable {
 public:
  RuleTable() {
    for (const auto rules :
         {arithmetic_rules(), select_rules(), view_rules(), piece_rules(), reduce_rules(), softmax_rules()}) {
      for (const auto& rule : rules) add(rule);
    }
  }

  ValueId apply(Site& site) const {
    const auto found = by_op_.find(site.node().op);
    if (found != by_op_.end()) {
      for (const auto* rule : found->second) {
        const ValueId made = rule->apply(site);
        if (made != kNoRewrite) return made;
      }
    }
    for (const auto* rule : any_) {
      const ValueId made = rule->apply(site);
      if (made != kNoRewrite) return made;
    }
    return kNoRewrite;
  }

 private:
  void add(const SimplifyRule& rule) {
    if (rule.op.empty())
      any_.push_back(&rule);
    else
      by_op_[&find_op(rule.op)].push_back(&rule);
  }

  std::unordered_map<const OpDef*, std::vector<const SimplifyRule*>> by_op_;
  std::vector<const SimplifyRule*> any_;
};

// One walk; rules look at rewritten operands. Returns whether anything changed.
class Walk {
 public:
  explicit Walk(const Graph& graph) : graph_(graph), rewriter_(graph), users_(graph.users()) {}

  bool run() {
    bool changed = false;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (rewrite(id))
        changed = true;
      else
        rewriter_.copy(id);
    }
    return changed;
  }
  Graph finish() { return rewriter_.finish(); }

 private:
  bool rewrite(NodeId id) {
    static const RuleTable table;
    const Node& node = graph_.node(id);
    // Dropout may be removed if it drops nothing; rules never see other random ops.
    const bool may = is_pure(node) || (is_op(node, "dropout") && node.after.empty());
    if (!may || node.out.size() != 1 || node.in.empty()) return false;
    Site site(rewriter_, users_, id);
    const auto nodes_before = rewriter_.to().size();
    const ValueId made = table.apply(site);
    if (made == kNoRewrite) return false;
    Graph& to = rewriter_.to();
    const Value& old = graph_.value(node.out[0]);
    const bool fresh = to.value(made).node >= nodes_before;
    // A value on another device or with another layout is not a replacement: a transfer lies between them.
    if (!fresh && (to.maker(made).device != node.device || to.value(made).layouts != old.layouts)) return false;
    if (fresh) to.value(made).layouts = old.layouts;
    rewriter_.set(node.out[0], made);
    return true;
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<std::vector<NodeId>> users_;
};

Graph simplify(const Graph& graph, const PassContext& context) {
  Graph now = graph;
  for (int round = 0; round < kMostRounds; ++round) {
    Walk walk(now);
    const bool changed = walk.run();
    if (!changed) break;
    now = prune(walk.finish(), context);
  }
  return now;
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_simplify(PassTable& table) {
  table.add({.name = "simplify",
             .doc = "drop identities, join views, casts and scales",
             .order = 700,
             .run = passes::simplify});
}

}  // namespace starling::graph
