#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "starling/ops/def/attrs.h"
#include "starling/ops/def/op_def.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

// Optimizer updates: one op per rule, each for any number n of tensors in one pass over memory. Operands are
//   all n weights, all n of the first state, …, all n gradients, then scalars: lr f32[] (f64[] for weights of f64), t
//   i64[] (steps, this one included), mu f64[] or f32[] if the rule has them, factor f32[] if `scaled`, skip bool[] if
//   `guarded`;
// results are the weights and states, and may overwrite them. `scaled` multiplies the gradients by the factor first;
// `guarded` leaves everything unchanged if skip is true. Arithmetic is in the weights' dtype; computations on scalars
// alone, such as bias corrections, are in double.
//
// In all rules g is factor · gradient. weight_decay adds weight_decay · w to g or, if the rule is `decoupled`,
// subtracts lr · weight_decay · w from the weight beside the step.
//
// A rule is a file in ops/updates, found by its name: <rule>.h has the attributes `<Rule>UpdateAttrs` with
//   kName, kScalars (how many of lr, t and mu it takes), states() and fields();
//   step(now, x, g, norms): the formula for one element, in double. It is the reference kernel;
//   kRows = true if it has an op <name>_rows too, which takes (rows i64[n], values) in place of the gradient of one
//     tensor and changes those rows only: see row_sparse.h;
//   measured(now, x, g): the value whose norm `norms` has, if that is not the gradient;
//   expect_valid(op), which throws, and sample_states(), if the defaults do not fit.
// The fast kernel is in kernels/cpu/update/rules.

// Scalar operands of a step.
struct UpdateMoment {
  double lr = 0;
  double t = 1;
  double mu = 1;
  double factor = 1;
};
// One element: x[0] is the weight, the states follow.
using UpdateElement = std::array<double, 4>;
// Norms over the whole tensor.
struct UpdateNorms {
  double weights = 0;
  double others = 0;
};

template <class A>
constexpr bool kHasRows = requires {
  A::kRows;
};

// Sample states: second moments are not negative, and the square of a mean does not exceed them.
inline constexpr CaseInput kSampleSquares{.low = 0.5, .high = 2}, kSampleMean{.low = -0.6, .high = 0.6};

// Operand counts of an update: n tensors have n · (targets + 1) operands, then the scalars.
struct UpdateOperands {
  std::size_t targets = 0;  // weight and states
  std::size_t scalars = 0;
  std::size_t tensors(std::size_t operands) const { return (operands - scalars) / (targets + 1); }
};
template <class A>
UpdateOperands update_operands(const A& attrs) {
  return {1 + attrs.states(), A::kScalars + std::size_t{attrs.scaled} + std::size_t{attrs.guarded}};
}
// Operand counts of any of these ops and of sgd_update; nothing for other ops.
std::optional<UpdateOperands> update_operands(const OpDef& op, const Attrs& attrs);

struct UpdateScalars {
  Tensor lr;
  Tensor t{};       // undefined: the rule has no step count
  Tensor mu{};      // nadam_update only
  Tensor factor{};  // undefined: 1
  Tensor skip{};    // undefined: never
};

// Updates `targets` (the weight, then its states) in place, or when the compiled program runs. A row-sparse gradient
// changes only its rows if the rule has a row op, and is made dense otherwise. `attrs` are those of the rule; `scaled`
// and `guarded` are set from the scalars.
void update(const OpDef& op, Attrs attrs, std::span<const Tensor> targets, const Tensor& gradient,
            const UpdateScalars& scalars);

}  // namespace starling::op
