#pragma once

#include <functional>
#include <utility>

#include "starling/tensor/tensor.h"

namespace starling {

// Control flow that depends on values. Run eagerly, these call the given functions as written, and the tape records
// what they do. While a function is being compiled they become nodes with the functions as bodies, each traced once:
// tensors that a body reads from outside become operands, so gradients flow to them as to the rest.
//
// In a body:
//  - nothing is assigned: return the new value as a result and assign that;
//  - random calls draw other numbers in every trip, the same eager and compiled;
//  - gradients are taken with grad(), gradients() and their like, not by backward();
//  - detach(), custom functions and hooks mean what they mean anywhere.

using Branch = std::function<TensorList()>;
using LoopCondition = std::function<Tensor(const TensorList& state)>;
using LoopBody = std::function<TensorList(const TensorList& state)>;
using ScanBody = std::function<std::pair<TensorList, TensorList>(const TensorList& carry, const TensorList& x)>;

// The results of one of two branches; only the one taken runs. The predicate is one bool; both branches give results of
// the same types.
TensorList cond(const Tensor& predicate, const Branch& then, const Branch& otherwise);

struct WhileOptions {
  // Most trips there may be; 0: no bound. With a bound a compiled loop has static memory, and can be differentiated as
  // often as one likes. A condition that still holds after so many trips is an error that names the bound.
  std::int64_t max_trips = 0;
};

// The state after body(state) again and again while condition(state), one bool, holds; maybe never. Every part of the
// state keeps its dtype and shape.
TensorList while_loop(const LoopCondition& condition, const LoopBody& body, const TensorList& state,
                      const WhileOptions& options = {});

// (carry, y) = body(carry, x) for the slices x of xs along axis 0, in order: the last carry, and the ys stacked along a
// new axis 0. All xs have the same number of slices, at least one; the carry keeps its types.
std::pair<TensorList, TensorList> scan(const ScanBody& body, const TensorList& carry, const TensorList& xs);

}  // namespace starling
