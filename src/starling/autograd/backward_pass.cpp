#include "starling/autograd/backward_pass.h"

#include <unordered_set>

#include "starling/autograd/autograd.h"
#include "starling/autograd/hooks.h"
#include "starling/base/error.h"
#include "starling/base/thread/thread_context.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/attrs/row_sparse.h"

namespace starling {
namespace {

class OriginScope {
 public:
  explicit OriginScope(int value) : before_(current_origin_value()) { thread_context().origin_value = value; }
  ~OriginScope() { thread_context().origin_value = before_; }
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;

 private:
  int before_;
};

void accumulate(Tensor& slot, const Tensor& term) { slot = slot.defined() ? op::add_gradients(slot, term) : term; }

void run_hooks(const GradNode& node, TensorList& grads) {
  const auto all = *node.hooks();  // copy: a hook may register another
  for (const auto& [output, hooks] : all) {
    Tensor& g = grads[static_cast<std::size_t>(output)];
    if (g.defined()) g = hooks->gradient(g);
  }
}

}  // namespace

int current_origin_value() { return thread_context().origin_value; }

void BackwardPass::seed(const Tensor& output, const Tensor& gradient) {
  check(output.requires_grad(),
        "[backward] expected a value that depends on tensors requiring gradients, got one that does not");
  if (!(gradient.shape() == output.shape())) {
    fail("[backward] expected a gradient of {}, got {}", to_string(output.shape()), to_string(gradient.shape()));
  }
  auto* node = static_cast<GradNode*>(output.impl()->extra->node.get());
  if (node) return deliver(Ref<GradNode>(node), output.impl()->extra->output, gradient);
  const Ref<TensorImpl> leaf(output.impl());
  if (!is_hooked(leaf)) return options_.leaf(leaf, gradient);
  HookedLeaf& entry = hooked(leaf);
  accumulate(entry.gradient, gradient);
}

void BackwardPass::run() {
  while (!queue_.empty()) {
    const Ref<GradNode> node = queue_.top().node;
    queue_.pop();
    const auto it = pending_.find(node.get());
    TensorList grads = std::move(it->second);
    pending_.erase(it);
    const bool within = node->sequence() >= options_.floor;
    if (within && node->hooks()) [[unlikely]]
      run_hooks(*node, grads);
    if (options_.visit) options_.visit(node.get(), grads);
    if (within) step(*node, grads);
  }
  for (std::size_t i = 0; i < hooked_.size(); ++i) complete(hooked_[i]);
}

void BackwardPass::deliver(const Ref<GradNode>& node, int output, const Tensor& gradient) {
  auto [it, fresh] = pending_.try_emplace(node.get());
  if (fresh) {
    it->second.resize(node->outputs());
    queue_.push({node->sequence(), node});
  }
  accumulate(it->second[static_cast<std::size_t>(output)], gradient);
}

void BackwardPass::step(const GradNode& node, const TensorList& grads) {
  const OriginScope scope(node.traced_value());
  TensorList next = node.backward({grads.data(), grads.size()});
  const auto edges = node.edges();
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].leaf) {
      if (is_hooked(edges[i].leaf)) [[unlikely]] {
        if (!counted_) count_edges(node);
        to_leaf(edges[i].leaf, next[i]);
      } else if (next[i].defined()) {
        options_.leaf(edges[i].leaf, next[i]);
      }
    } else if (edges[i].node && next[i].defined()) {
      deliver(edges[i].node, edges[i].output, next[i]);
    }
  }
}

bool BackwardPass::is_hooked(const Ref<TensorImpl>& leaf) const {
  return leaf_hooks(*leaf) && options_.leaf_hooks && (!options_.wants || options_.wants(leaf.get()));
}

BackwardPass::HookedLeaf& BackwardPass::hooked(const Ref<TensorImpl>& leaf) {
  for (auto& entry : hooked_) {
    if (entry.leaf == leaf) return entry;
  }
  hooked_.push_back({leaf, {}, 0});
  return hooked_.back();
}

// Counts the edges to each leaf with hooks, from the node being run and all pending ones. Done when the first such leaf
// is met: passes without hooks need no second walk.
void BackwardPass::count_edges(const GradNode& from) {
  counted_ = true;
  std::vector<const GradNode*> open{&from};
  for (const auto& [node, grads] : pending_) open.push_back(node);
  std::unordered_set<const GradNode*> seen(open.begin(), open.end());
  while (!open.empty()) {
    const GradNode& node = *open.back();
    open.pop_back();
    if (node.sequence() < options_.floor) continue;
    for (const auto& edge : node.edges()) {
      if (edge.leaf && is_hooked(edge.leaf)) ++hooked(edge.leaf).to_come;
      if (edge.node && seen.insert(edge.node.get()).second) open.push_back(edge.node.get());
    }
  }
}

void BackwardPass::to_leaf(const Ref<TensorImpl>& leaf, const Tensor& term) {
  HookedLeaf& entry = hooked(leaf);
  if (term.defined()) accumulate(entry.gradient, term);
  if (--entry.to_come == 0) complete(entry);
}

void BackwardPass::complete(HookedLeaf& entry) {
  if (!entry.gradient.defined()) return;
  const Ref<TensorImpl> leaf = entry.leaf;
  const auto hooks = leaf->extra->rare->hooks;  // keeps the hooks alive while they run
  const Tensor gradient = hooks->gradient(std::move(entry.gradient));
  entry.gradient = Tensor();
  options_.leaf(leaf, gradient);
  if (options_.filling) hooks->filled(Tensor(leaf));
}

}  // namespace starling
