#include "starling/autograd/autograd.h"

#include <unordered_map>
#include <vector>

#include "starling/autograd/backward_pass.h"
#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/attrs/row_sparse.h"
#include "starling/ops/def/scopes/near_scope.h"

namespace starling {
namespace {

// Rows of a gradient in memory of their own: they may be the caller's index tensor, which the next batch may overwrite.
Tensor own_rows(const Tensor& rows) {
  if (rows.traced()) return rows;
  return copied(rows.contiguous() ? rows : mul(rows, 1.0));
}

// Unshared copy of a gradient: leaves must not share theirs with each other or with the caller's seed.
Tensor owned(const Tensor& g) {
  if (g.traced()) return g;
  if (is_row_sparse(g)) return row_sparse(own_rows(rows_of(g)), owned(row_values(g)), g.shape());
  const bool alone = g.contiguous() && g.impl()->use_count() == 1 && g.impl()->storage->use_count() == 1;
  return alone ? g : mul(g, 1.0);
}

Tensor seed_for(const Tensor& output, std::span<const Tensor> seeds, std::size_t i) {
  if (i < seeds.size() && seeds[i].defined()) return seeds[i];
  if (output.numel() != 1)
    fail("[backward] expected one element or a gradient to begin with, got {}", to_string(output.type()));
  const NearScope near(output);
  return full(output.shape(), 1.0, output.dtype());
}

// Collects the gradients of the inputs of gradients(), leaves or not.
class Wanted {
 public:
  explicit Wanted(std::span<const Tensor> inputs) : found_(inputs.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      check(inputs[i].defined(), "[gradients] expected tensors, got an empty handle");
      const auto& extra = inputs[i].impl()->extra;
      auto* node = extra ? static_cast<GradNode*>(extra->node.get()) : nullptr;
      if (node) {
        inner_.push_back({node, extra->output, i});
      } else {
        leaves_[inputs[i].impl()].push_back(i);
      }
    }
  }
  bool has(const TensorImpl* leaf) const { return leaves_.count(leaf) > 0; }
  void leaf(const Ref<TensorImpl>& impl, const Tensor& gradient) {
    const auto it = leaves_.find(impl.get());
    if (it == leaves_.end()) return;
    for (std::size_t i : it->second)
      found_[i] = found_[i].defined() ? op::add_gradients(found_[i], gradient) : gradient;
  }
  void visit(GradNode* node, const TensorList& grads) {
    for (const auto& inner : inner_) {
      if (inner.node == node) found_[inner.index] = grads[static_cast<std::size_t>(inner.output)];
    }
  }
  TensorList take(std::span<const Tensor> inputs, const GradOptions& options) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (found_[i].defined()) {
        if (options.create_graph) found_[i] = dense(found_[i]);
      } else if (!options.allow_unused) {
        const NearScope near(inputs[i]);
        found_[i] = full(inputs[i].shape(), 0.0, inputs[i].dtype());
      }
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
  std::unordered_map<const TensorImpl*, std::vector<std::size_t>> leaves_;  // a tensor may be asked for twice
};

BackwardPass::Options options_for(Wanted& wanted) {
  return {.leaf = [&](const Ref<TensorImpl>& impl, const Tensor& g) { wanted.leaf(impl, g); },
          .visit = [&](GradNode* node, const TensorList& grads) { wanted.visit(node, grads); },
          .wants = [&](const TensorImpl* leaf) { return wanted.has(leaf); }};
}

}  // namespace

TensorList gradients(std::span<const Tensor> outputs, std::span<const Tensor> inputs, std::span<const Tensor> seeds,
                     const GradOptions& options) {
  const GradMode mode(options.create_graph);
  Wanted wanted(inputs);
  BackwardPass pass(options_for(wanted));
  for (std::size_t i = 0; i < outputs.size(); ++i) pass.seed(outputs[i], seed_for(outputs[i], seeds, i));
  pass.run();
  return wanted.take(inputs, options);
}

TensorList gradients_since(std::uint64_t floor, std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                           std::span<const Tensor> seeds, const GradOptions& options) {
  const GradMode mode(options.create_graph);
  Wanted wanted(inputs);
  auto within = options_for(wanted);
  within.floor = floor;
  within.leaf_hooks = false;
  BackwardPass pass(std::move(within));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].requires_grad() && seeds[i].defined()) pass.seed(outputs[i], seeds[i]);
  }
  pass.run();
  return wanted.take(inputs, options);
}

void Tensor::backward() const { backward(Tensor()); }

void Tensor::backward(const Tensor& gradient) const {
  check(defined(), "[backward] expected a tensor, got an empty handle");
  const NoGrad off;
  const auto leaf = [](const Ref<TensorImpl>& impl, const Tensor& g) {
    check(!g.traced() || Tensor(impl).is_variable(),
          "[compile] expected gradients to go to named tensors, got one that is not: give it a name with set_name");
    Tensor slot = impl->more().grad;
    impl->more().grad = slot.defined() ? op::add_gradients(slot, g) : owned(g);
  };
  BackwardPass pass({.leaf = leaf, .filling = true});
  pass.seed(*this, seed_for(*this, {&gradient, 1}, 0));
  pass.run();
}

}  // namespace starling
