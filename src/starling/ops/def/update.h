#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "starling/ops/def/attrs.h"
#include "starling/ops/def/op_def.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

// Optimizer updates: one op per rule, each for any number n of tensors in one pass over memory. Operands are
//   all n weights, all n of the first state, …, all n gradients, then scalars: lr f32[], t i64[] (steps, this one
//   included), mu f64[] or f32[] if the rule has them, factor f32[] if `scaled`, skip bool[] if `guarded`;
// results are the weights and states, and may overwrite them. `scaled` multiplies the gradients by the factor first;
// `guarded` leaves everything unchanged if skip is true. Arithmetic is in the weights' dtype; computations on scalars
// alone, such as bias corrections, are in double.
//
// In all rules g is factor · gradient. weight_decay adds weight_decay · w to g or, if the rule is `decoupled`,
// subtracts lr · weight_decay · w from the weight beside the step.

// SGD as sgd_update (state.h), with factor and skip: v = momentum · v + g; w -= lr · (nesterov ? g + momentum · v : v).
// Without momentum there is no state v.
struct MomentumUpdateAttrs {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "momentum_update";
  static constexpr std::size_t kScalars = 1;
  std::size_t states() const { return momentum != 0 ? 1 : 0; }
  static AttrFields fields();
};

// sum += g²; w -= lr / (1 + (t - 1) · lr_decay) · g / (√sum + eps).
struct AdagradUpdateAttrs {
  double lr_decay = 0;
  double eps = 1e-10;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adagrad_update";
  static constexpr std::size_t kScalars = 2;
  static constexpr std::size_t states() { return 1; }
  static AttrFields fields();
};

// s = rho · s + (1 - rho) · g²; u = √(d + eps) / √(s + eps) · g; d = rho · d + (1 - rho) · u²; w -= lr · u.
struct AdadeltaUpdateAttrs {
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adadelta_update";
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields();
};

// s = alpha · s + (1 - alpha) · g²; centered: a = alpha · a + (1 - alpha) · g, else a = 0; u = g / (√(s - a²) + eps),
// with s - a² clamped at 0 against rounding; momentum: b = momentum · b + u, w -= lr · b, else w -= lr · u. States: s,
// then a and b if used.
struct RmspropUpdateAttrs {
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  bool centered = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "rmsprop_update";
  static constexpr std::size_t kScalars = 1;
  std::size_t states() const { return 1 + std::size_t{centered} + std::size_t{momentum != 0}; }
  static AttrFields fields();
};

// m = beta1 · m + (1 - beta1) · g; v = beta2 · v + (1 - beta2) · g²; amsgrad: x = max(x, v), else x = v;
// w -= lr · (m / (1 - beta1ᵗ)) / (√(x / (1 - beta2ᵗ)) + eps).
struct AdamUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  bool amsgrad = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adam_update";
  static constexpr std::size_t kScalars = 2;
  std::size_t states() const { return amsgrad ? 3 : 2; }
  static AttrFields fields();
};

// m as in Adam; u = max(beta2 · u, |g| + eps); w -= lr / (1 - beta1ᵗ) · m / u.
struct AdamaxUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "adamax_update";
  static constexpr std::size_t kScalars = 2;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields();
};

// m, v as in Adam; μₜ = beta1 · (1 - 0.96^(t · momentum_decay) / 2); mu is the product of all μ up to this step;
// w -= lr · ((1 - μₜ) / (1 - mu) · g + μₜ₊₁ / (1 - mu · μₜ₊₁) · m) / (√(v / (1 - beta2ᵗ)) + eps).
struct NadamUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 0.004;
  bool decoupled = false;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "nadam_update";
  static constexpr std::size_t kScalars = 3;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields();
};

// u = sign(beta1 · m + (1 - beta1) · g); m = beta2 · m + (1 - beta2) · g; w -= lr · (u + weight_decay · w).
struct LionUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "lion_update";
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 1; }
  static AttrFields fields();
};

// m, v as in Adam without weight decay; u = (m / (1 - beta1ᵗ)) / (√(v / (1 - beta2ᵗ)) + eps) + weight_decay · w;
// w -= lr · |w| / |u| · u with the norms of each whole tensor; the ratio is 1 if a norm is 0.
struct LambUpdateAttrs {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "lamb_update";
  static constexpr std::size_t kScalars = 2;
  static constexpr std::size_t states() { return 2; }
  static AttrFields fields();
};

// r = trust · |w| / (|g| + weight_decay · |w| + eps) with the norms of each whole tensor, 1 if |w| or |g| is 0;
// v = momentum · v + lr · r · (g + weight_decay · w); w -= v.
struct LarsUpdateAttrs {
  double momentum = 0.9;
  double trust = 0.001;
  double eps = 0;
  double weight_decay = 0;
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "lars_update";
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 1; }
  static AttrFields fields();
};

// Running averages of weights: w = (1 - lr) · w + lr · g, where g is the averaged tensor.
struct AverageUpdateAttrs {
  bool scaled = false;
  bool guarded = false;
  static constexpr std::string_view kName = "average_update";
  static constexpr std::size_t kScalars = 1;
  static constexpr std::size_t states() { return 0; }
  static AttrFields fields();
};

// Calls f.template operator()<A>() for the attributes of every rule.
template <class F>
void for_update_rules(F&& f) {
  const auto all = [&]<class... A>() { (f.template operator()<A>(), ...); };
  all.template operator()<MomentumUpdateAttrs, AdagradUpdateAttrs, AdadeltaUpdateAttrs, RmspropUpdateAttrs,
                          AdamUpdateAttrs, AdamaxUpdateAttrs, NadamUpdateAttrs, LionUpdateAttrs, LambUpdateAttrs,
                          LarsUpdateAttrs, AverageUpdateAttrs>();
}
// As above for the rules with an op <name>_rows, which takes (rows i64[n], values) in place of the gradient of one
// tensor and changes those rows only: see row_sparse.h.
template <class F>
void for_row_update_rules(F&& f) {
  f.template operator()<MomentumUpdateAttrs>();
  f.template operator()<AdagradUpdateAttrs>();
  f.template operator()<AdamUpdateAttrs>();
}

// Operand counts of an update: n tensors have n · (targets + 1) operands, then the scalars.
struct UpdateLayout {
  std::size_t targets = 0;  // weight and states
  std::size_t scalars = 0;
  std::size_t tensors(std::size_t operands) const { return (operands - scalars) / (targets + 1); }
};
template <class A>
UpdateLayout update_layout(const A& attrs) {
  return {1 + attrs.states(), A::kScalars + std::size_t{attrs.scaled} + std::size_t{attrs.guarded}};
}
// Operand counts of any of these ops and of sgd_update; nothing for other ops.
std::optional<UpdateLayout> update_layout(const OpDef& op, const Attrs& attrs);

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
