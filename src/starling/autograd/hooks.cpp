#include "starling/autograd/hooks.h"

#include <algorithm>

#include "starling/autograd/grad_node.h"
#include "starling/base/error.h"
#include "starling/ops/def/apply.h"

namespace starling {

Tensor GradHooks::gradient(Tensor g) const {
  const auto now = on_gradient;  // copy: a hook may remove itself
  for (const auto& [id, hook] : now) {
    const Tensor made = hook(g);
    if (!made.defined()) continue;
    if (!(made.type() == g.type())) {
      fail("[hook] expected to replace a gradient by one of {}, got {}", to_string(g.type()), to_string(made.type()));
    }
    g = made;
  }
  return g;
}

void GradHooks::filled(const Tensor& leaf) const {
  const auto now = on_filled;
  for (const auto& [id, hook] : now) hook(leaf);
}

GradHooks* leaf_hooks(const TensorImpl& leaf) {
  if (!leaf.extra || !leaf.extra->rare) return nullptr;
  GradHooks* hooks = leaf.extra->rare->hooks.get();
  return hooks && !hooks->empty() ? hooks : nullptr;
}

void HookHandle::remove() {
  const auto hooks = hooks_.lock();
  if (!hooks) return;
  const auto is_this = [&](const auto& entry) { return entry.first == id_; };
  std::erase_if(hooks->on_gradient, is_this);
  std::erase_if(hooks->on_filled, is_this);
  hooks_.reset();
}

namespace {

// Storage of a tensor's hooks: the node that made an inner value, or the leaf itself.
std::shared_ptr<GradHooks> hooks_at(const Tensor& tensor) {
  TensorExtra& extra = tensor.impl()->more();
  if (extra.node) return static_cast<GradNode*>(extra.node.get())->hooks_of(extra.output);
  TensorRare& rare = extra.more();
  if (!rare.hooks) rare.hooks = std::make_shared<GradHooks>();
  return rare.hooks;
}

}  // namespace

HookHandle Tensor::register_hook(GradHook hook) const {
  check(defined() && hook, "[hook] expected a tensor and a function, got an empty one");
  if (!requires_grad()) {
    // The first run of a recomputed region has gradients off; no gradient will flow here, so the hook is ignored.
    check(!grad_enabled(), "[hook] expected a tensor that requires a gradient, got a {} that does not",
          to_string(type()));
    return {};
  }
  const auto hooks = hooks_at(*this);
  hooks->on_gradient.emplace_back(hooks->next_id, std::move(hook));
  return {hooks, hooks->next_id++};
}

HookHandle Tensor::register_filled_hook(FilledHook hook) const {
  check(defined() && hook, "[hook] expected a tensor and a function, got an empty one");
  check(requires_grad() && !impl_->extra->node, "[hook] expected a leaf that requires a gradient, got {}",
        requires_grad() ? "an inner value" : "a tensor that does not");
  const auto hooks = hooks_at(*this);
  hooks->on_filled.emplace_back(hooks->next_id, std::move(hook));
  return {hooks, hooks->next_id++};
}

}  // namespace starling
