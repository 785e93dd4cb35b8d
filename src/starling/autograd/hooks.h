#pragma once

#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// Hooks of one tensor, as registered by Tensor::register_hook and register_filled_hook.
//
// Order: a backward pass goes from the newest value to the oldest and calls the hooks of a value when its gradient is
// complete, before propagating it; hooks of one tensor run in the order of registration, each seeing the result of the
// one before. A leaf's hooks are called once per pass, as soon as nothing more can flow to it; then its grad() slot is
// filled; then its filled hooks are called. Hooks run with gradients off, except under gradients(…, {.create_graph =
// true}). gradients() calls the hooks of inner values it passes and of the leaves it was asked for, and no filled
// hooks.
//
// Inside compile() a hook is called once, while the function is traced, with traced tensors; its ops become part of the
// program. Reading values on the host is refused there, as anywhere in a trace. Register hooks outside the compiled
// function, which may be traced more than once.
struct GradHooks {
  std::vector<std::pair<std::uint64_t, GradHook>> on_gradient;
  std::vector<std::pair<std::uint64_t, FilledHook>> on_filled;
  std::uint64_t next_id = 1;

  bool empty() const { return on_gradient.empty() && on_filled.empty(); }
  Tensor gradient(Tensor g) const;  // applies all hooks; checks the type of the result
  void filled(const Tensor& leaf) const;
};

// Hooks of a leaf; null if it has none.
GradHooks* leaf_hooks(const TensorImpl& leaf);

}  // namespace starling
