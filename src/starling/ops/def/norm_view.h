#pragma once

#include "starling/ops/def/op_def.h"

namespace starling {

class OpRegistry;

// Common form of batch, layer, group and RMS normalisation: x in a shape in which some dimensions share statistics and
// others share a weight. `stats` and `weight` have the same rank, with size 1 where shared.
struct NormView {
  Shape x{};
  Shape stats{};
  Shape weight{};
  Shape shared_stats{};   // dimensions reduced for statistics
  Shape shared_weight{};  // dimensions reduced for weight gradients
  Shape stats_type{};     // shapes that users see
  Shape weight_type{};
  double eps = 0;
  bool centred = true;         // false: RMS
  std::int64_t count() const;  // elements per statistic
};

// Common form of an op, by name and attributes; checks x and eps, and refuses statistics of no elements.
NormView norm_view(const OpDef& op, const TensorType& x, const Attrs& attrs);

// Definition of a normalisation op (x, weight?, bias?) → (y, mean, var), or (x, weight?) → (y, square), and of its
// backward (dy, x, mean, var, weight?) → (dx, dweight, dbias); the last two are empty without a weight.
OpDef norm_forward(std::string name, std::string doc, const AttrType* attrs);
OpDef norm_backward(std::string name, const AttrType* attrs);
// Sample calls of the backward, from those of the forward.
std::vector<OpCase> norm_backward_cases(const OpDef& backward, const std::vector<OpCase>& forward);
// Adds an op and its gradient, `name` and `name`_backward; sample calls of the backward are made from `cases`.
void add_norm(OpRegistry& ops, const char* name, const char* doc, const AttrType* attrs,
              std::vector<OpCase> (*cases)());

// Operands followed by weight and bias, as far as they are defined; throws for a bias without a weight.
TensorList with_affine(TensorList in, const Tensor& weight, const Tensor& bias, const char* who);
// Sample call with `affine` operands of the weight's shape after x.
OpCase norm_case(Shape x, int affine, Shape weight, const Attrs& attrs);

}  // namespace starling
