#pragma once

#include <functional>
#include <utility>

#include "starling/tensor/tensor.h"

namespace starling {

// Data-dependent control flow, as jax.lax.cond, while_loop and scan. Eager execution calls the given functions as
// written, and the tape records their ops. In compile() they become nodes with the functions as bodies, each traced
// once: tensors that a body reads from outside become operands, so gradients flow to them too.
//
// In a body:
//  - assigns are refused: return the new value as a result and assign that;
//  - random calls draw different numbers in every trip, the same eager and compiled;
//  - gradients are taken with grad(), gradients() and the like, not by backward();
//  - detach(), custom functions and hooks work as anywhere.

using Branch = std::function<TensorList()>;
using LoopCondition = std::function<Tensor(const TensorList& state)>;
using LoopBody = std::function<TensorList(const TensorList& state)>;
using ScanBody = std::function<std::pair<TensorList, TensorList>(const TensorList& carry, const TensorList& x)>;

// Results of one of two branches; only the one taken runs. The predicate is one bool; both branches return the same
// types.
TensorList cond(const Tensor& predicate, const Branch& then, const Branch& otherwise);

struct WhileOptions {
  // Maximum number of trips; 0: unbounded. With a bound a compiled loop has static memory and can be differentiated any
  // number of times. A condition that still holds after that many trips is an error that names the bound.
  std::int64_t max_trips = 0;
};

// State after applying body(state) while condition(state), one bool, holds; possibly zero times. Every part of the
// state keeps its dtype and shape.
TensorList while_loop(const LoopCondition& condition, const LoopBody& body, const TensorList& state,
                      const WhileOptions& options = {});

// Applies (carry, y) = body(carry, x) to the slices x of xs along axis 0, in order; returns the last carry and the ys
// stacked along a new axis 0. All xs have the same number of slices, at least one; the carry keeps its types.
std::pair<TensorList, TensorList> scan(const ScanBody& body, const TensorList& carry, const TensorList& xs);

}  // namespace starling
