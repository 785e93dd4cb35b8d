#pragma once

#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "starling/autograd/grad_node.h"

namespace starling {

// Walks the recorded graph from the outputs, newest node first, so that a node runs when all its gradients have
// arrived.
class BackwardPass {
 public:
  struct Options {
    // Called with each term of a leaf's gradient as it arrives; for a leaf with hooks, once with the complete gradient.
    std::function<void(const Ref<TensorImpl>&, const Tensor&)> leaf = nullptr;
    // Called with the complete gradients of a node's outputs, before they are propagated.
    std::function<void(GradNode*, const TensorList&)> visit = nullptr;
    std::function<bool(const TensorImpl*)> wants = nullptr;  // leaves whose hooks are called; empty: all
    bool filling = false;                                    // leaf() fills grad() slots: call the filled hooks
    std::uint64_t floor = 0;  // older nodes are visited, but neither they nor their hooks run
    bool leaf_hooks = true;
  };

  explicit BackwardPass(Options options) : options_(std::move(options)) {}
  void seed(const Tensor& output, const Tensor& gradient);
  void run();

 private:
  struct Item {
    std::uint64_t sequence;
    Ref<GradNode> node;
    bool operator<(const Item& other) const { return sequence < other.sequence; }
  };
  // Leaf with hooks: its gradient so far, and the number of edges that may still bring terms.
  struct HookedLeaf {
    Ref<TensorImpl> leaf;
    Tensor gradient;
    int to_come = 0;
  };

  void deliver(const Ref<GradNode>& node, int output, const Tensor& gradient);
  void step(const GradNode& node, const TensorList& grads);
  void to_leaf(const Ref<TensorImpl>& leaf, const Tensor& term);
  bool is_hooked(const Ref<TensorImpl>& leaf) const;
  HookedLeaf& hooked(const Ref<TensorImpl>& leaf);
  void count_edges(const GradNode& from);
  void complete(HookedLeaf& entry);

  Options options_;
  std::priority_queue<Item> queue_;
  std::unordered_map<GradNode*, TensorList> pending_;
  std::vector<HookedLeaf> hooked_;
  bool counted_ = false;
};

}  // namespace starling
