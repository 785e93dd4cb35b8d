#include "starling/autograd/autograd.h"

#include <queue>
#include <unordered_map>
#include <vector>

#include "starling/autograd/grad_node.h"
#include "starling/base/error.h"
#include "starling/ops/binary.h"
#include "starling/ops/creation.h"
#include "starling/ops/registry.h"

namespace starling {
namespace {

thread_local int origin_value = -1;

class OriginScope {
 public:
  explicit OriginScope(int value) : before_(origin_value) { origin_value = value; }
  ~OriginScope() { origin_value = before_; }
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;

 private:
  int before_;
};

void accumulate(Tensor& slot, const Tensor& term) { slot = slot.defined() ? add(slot, term) : term; }

// A gradient that nobody else holds: leaves must not share theirs with each other or with the caller's seed.
Tensor owned(const Tensor& g) {
  if (g.traced()) return g;
  const bool alone = g.contiguous() && g.impl()->use_count() == 1 && g.impl()->storage->use_count() == 1;
  return alone ? g : mul(g, 1.0);
}

// Walks the history from the outputs, newest node first, so that a node is run when all its gradients have arrived.
class BackwardPass {
 public:
  using LeafFn = std::function<void(const Ref<TensorImpl>&, const Tensor&)>;

  void seed(const Tensor& output, const Tensor& gradient, const LeafFn& leaf) {
    check(output.requires_grad(),
          "[backward] expected a value that depends on tensors requiring gradients, got one that does not");
    if (!(gradient.shape() == output.shape())) {
      fail("[backward] expected a gradient of {}, got {}", to_string(output.shape()), to_string(gradient.shape()));
    }
    auto* node = static_cast<GradNode*>(output.impl()->extra->node.get());
    if (!node) return leaf(Ref<TensorImpl>(output.impl()), gradient);
    deliver(Ref<GradNode>(node), output.impl()->extra->output, gradient);
  }

  // Gradients that reach `wanted` (node, output) pairs are also handed to `leaf` by the caller's own map.
  void run(const LeafFn& leaf, const std::function<void(GradNode*, const TensorList&)>& visit) {
    while (!queue_.empty()) {
      const Ref<GradNode> node = queue_.top().node;
      queue_.pop();
      const auto it = pending_.find(node.get());
      TensorList grads = std::move(it->second);
      pending_.erase(it);
      if (visit) visit(node.get(), grads);
      step(*node, grads, leaf);
    }
  }

 private:
  struct Item {
    std::uint64_t sequence;
    Ref<GradNode> node;
    bool operator<(const Item& other) const { return sequence < other.sequence; }
  };

  void deliver(const Ref<GradNode>& node, int output, const Tensor& gradient) {
    auto [it, fresh] = pending_.try_emplace(node.get());
    if (fresh) {
      it->second.resize(node->outputs());
      queue_.push({node->sequence(), node});
    }
    accumulate(it->second[static_cast<std::size_t>(output)], gradient);
  }

  void step(const GradNode& node, const TensorList& grads, const LeafFn& leaf) {
    const OriginScope scope(node.traced_value());
    TensorList next = node.backward({grads.data(), grads.size()});
    const auto edges = node.edges();
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (!next[i].defined()) continue;
      if (edges[i].node) {
        deliver(edges[i].node, edges[i].output, next[i]);
      } else if (edges[i].leaf) {
        leaf(edges[i].leaf, next[i]);
      }
    }
  }

  std::priority_queue<Item> queue_;
  std::unordered_map<GradNode*, TensorList> pending_;
};

Tensor seed_for(const Tensor& output, std::span<const Tensor> seeds, std::size_t i) {
  if (i < seeds.size() && seeds[i].defined()) return seeds[i];
  if (output.numel() != 1)
    fail("[backward] expected one element or a gradient to begin with, got {}", to_string(output.type()));
  return full(output.shape(), 1.0, output.dtype());
}

// Collects what flows to the inputs of `gradients`, leaves or not.
class Wanted {
 public:
  explicit Wanted(std::span<const Tensor> inputs) : found_(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& extra = inputs[i].impl()->extra;
      auto* node = extra ? static_cast<GradNode*>(extra->node.get()) : nullptr;
      if (node) {
        inner_.push_back({node, extra->output, i});
      } else {
        leaves_[inputs[i].impl()].push_back(i);
      }
    }
  }
  void leaf(const Ref<TensorImpl>& impl, const Tensor& gradient) {
    const auto it = leaves_.find(impl.get());
    if (it == leaves_.end()) return;
    for (std::size_t i : it->second) accumulate(found_[i], gradient);
  }
  void visit(GradNode* node, const TensorList& grads) {
    for (const auto& inner : inner_) {
      if (inner.node == node) found_[inner.index] = grads[static_cast<std::size_t>(inner.output)];
    }
  }
  TensorList take(std::span<const Tensor> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!found_[i].defined()) found_[i] = full(inputs[i].shape(), 0.0, inputs[i].dtype());
    }
    return std::move(found_);
  }

 private:
  struct Inner {
    GradNode* node;
    int output;
    std::size_t index;
  };
  TensorList found_;
  std::vector<Inner> inner_;
  std::unordered_map<TensorImpl*, std::vector<std::size_t>> leaves_;  // one tensor may be asked for twice
};

}  // namespace

int current_origin_value() { return origin_value; }

TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> inputs, std::span<const Tensor> seeds,
                     const GradOptions& options) {
  const GradMode mode(options.create_graph);
  Wanted wanted(inputs);
  const auto leaf = [&](const Ref<TensorImpl>& impl, const Tensor& g) { wanted.leaf(impl, g); };
  BackwardPass pass;
  for (std::size_t i = 0; i < outputs.size(); ++i) pass.seed(outputs[i], seed_for(outputs[i], seeds, i), leaf);
  pass.run(leaf, [&](GradNode* node, const TensorList& grads) { wanted.visit(node, grads); });
  return wanted.take(inputs);
}

void Tensor::backward() const { backward(Tensor()); }

void Tensor::backward(const Tensor& gradient) const {
  check(defined(), "[backward] expected a tensor, got an empty handle");
  const NoGrad no_grad;
  const auto leaf = [](const Ref<TensorImpl>& impl, const Tensor& g) {
    check(!g.traced() || Tensor(impl).is_variable(),
          "[compile] expected gradients to go to named tensors, got one that is not: give it a name with set_name");
    Tensor slot = impl->more().grad;
    impl->more().grad = slot.defined() ? add(slot, g) : owned(g);
  };
  BackwardPass pass;
  pass.seed(*this, seed_for(*this, {&gradient, 1}, 0), leaf);
  pass.run(leaf, nullptr);
}

std::function<TensorList(std::span<const Tensor>)> grad_all(TensorsFn f) {
  return [f = std::move(f)](std::span<const Tensor> at) {
    // Inside an outer grad() the arguments carry history, which must stay; plain ones become fresh leaves.
    const bool nested = [&] {
      for (const auto& x : at) {
        if (x.requires_grad()) return true;
      }
      return false;
    }();
    TensorList inputs;
    for (const auto& x : at) {
      // Arguments are told apart even where one tensor is given twice.
      static const OpDef& identity = find_op("identity");
      inputs.push_back(x.requires_grad() ? apply1(identity, {x}) : x.detach());
      if (!x.requires_grad() && is_float(x.dtype())) inputs.back().set_requires_grad();
    }
    const GradMode mode(true);
    const Tensor y = f({inputs.data(), inputs.size()});
    if (!y.requires_grad()) {
      TensorList zero;
      for (const auto& x : inputs) zero.push_back(full(x.shape(), 0.0, x.dtype()));
      return zero;
    }
    return gradients({&y, 1}, {inputs.data(), inputs.size()}, {}, {.create_graph = nested});
  };
}

TensorFn grad(TensorFn f) {
  auto all = grad_all([f = std::move(f)](std::span<const Tensor> x) { return f(x[0]); });
  return [all = std::move(all)](const Tensor& x) { return all({&x, 1})[0]; };
}

}  // namespace starling
