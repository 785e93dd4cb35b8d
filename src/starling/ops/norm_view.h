#pragma once

#include "starling/ops/op_def.h"

namespace starling {

// What batch, layer, group and RMS normalisation have in common: x seen in a shape in which some dimensions share
// statistics, and others share a weight. Both have the rank of x there, with 1 where they are shared.
struct NormView {
  Shape x{};
  Shape stats{};
  Shape weight{};
  Shape shared_stats{};   // dimensions of x over which statistics are taken
  Shape shared_weight{};  // dimensions of x over which weight gradients are summed
  Shape stats_type{};     // the shapes that users see
  Shape weight_type{};
  double eps = 0;
  bool centred = true;         // false: RMS
  std::int64_t count() const;  // elements that share statistics
};

// By an op's name and attributes; checks x and eps, and refuses statistics of nothing.
NormView norm_view(const OpDef& op, const TensorType& x, const Attrs& attrs);

// Definitions of a normalising op (x, weight?, bias?) → (y, mean, var), or (x, weight?) → (y, square), and of its
// backward (dy, x, mean, var, weight?) → (dx, dweight, dbias); the last two are empty without a weight.
OpDef norm_forward(std::string name, std::string doc, const AttrType* attrs);
OpDef norm_backward(std::string name, const AttrType* attrs);
// The sample calls of the backward from those of the forward.
std::vector<OpCase> norm_backward_cases(const OpDef& backward, const std::vector<OpCase>& forward);

}  // namespace starling
