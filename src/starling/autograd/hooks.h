#pragma once

#include <utility>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling {

// What Tensor::register_hook and register_filled_hook keep.
//
// Order: a backward pass goes from the newest value to the oldest, and calls the hooks of a value when all of its
// gradient has arrived and before the gradient goes on; hooks of one tensor in the order of their registration, each
// seeing what the one before made of the gradient. A leaf's hooks are called once a pass, as soon as nothing more can
// flow to it; then its slot is filled; then its filled hooks are called. Hooks run with gradients off, except under
// gradients(…, {.create_graph = true}). gradients() calls the hooks of inner values it passes and of leaves it was
// asked for, and no filled hooks.
//
// Inside compile() a hook is traced along: it is called while the function is traced, with stand-ins, and the ops it
// applies become part of the program. A hook that reads values on the host is refused there like any such read.
// Register hooks outside the compiled function: it may be traced more than once.
struct GradHooks {
  std::vector<std::pair<std::uint64_t, GradHook>> on_gradient;
  std::vector<std::pair<std::uint64_t, FilledHook>> on_filled;
  std::uint64_t next_id = 1;

  bool empty() const { return on_gradient.empty() && on_filled.empty(); }
  Tensor gradient(Tensor g) const;  // what the hooks make of it; checks its type
  void filled(const Tensor& leaf) const;
};

// The hooks of a leaf; null where it has none.
GradHooks* leaf_hooks(const TensorImpl& leaf);

}  // namespace starling
