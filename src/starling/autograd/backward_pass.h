#pragma once

#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "starling/autograd/grad_node.h"

namespace starling {

// Walks the history from the outputs, newest node first, so that a node is run when all its gradients have arrived.
class BackwardPass {
 public:
  struct Options {
    // Given each term of a leaf's gradient as it comes; of a leaf with hooks, the whole of it once.
    std::function<void(const Ref<TensorImpl>&, const Tensor&)> leaf = nullptr;
    // Given the complete gradients of a node's outputs, before they go on.
    std::function<void(GradNode*, const TensorList&)> visit = nullptr;
    std::function<bool(const TensorImpl*)> wants = nullptr;  // leaves whose hooks are to be called; empty: all
    bool filling = false;                                    // leaf() fills slots: call the filled hooks
    std::uint64_t floor = 0;  // older nodes are visited but neither run nor shown to their hooks
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
  // A leaf with hooks: its gradient so far, and how many edges may still bring terms.
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
