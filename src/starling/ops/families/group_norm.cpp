#include "starling/ops/api/normalize.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/norm_view.h"
#include "starling/ops/def/registry.h"

namespace starling {

Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::GroupNormAttrs& attrs) {
  return apply1(named_op<"group_norm">(), with_affine({x}, weight, bias, "group_norm"), attrs);
}
Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::EpsAttrs& attrs) {
  return apply1(named_op<"instance_norm">(), with_affine({x}, weight, bias, "instance_norm"), attrs);
}

namespace {

std::vector<OpCase> group_cases() {
  return {norm_case({2, 4, 3}, 2, {4}, op::GroupNormAttrs{}),
          norm_case({2, 4, 3}, 2, {4}, op::GroupNormAttrs{.groups = 2}),
          norm_case({2, 4, 3}, 0, {}, op::GroupNormAttrs{.groups = 2}),
          norm_case({2, 4, 3, 2}, 1, {4}, op::GroupNormAttrs{.groups = 4, .eps = 1e-2}),
          norm_case({3, 6}, 2, {6}, op::GroupNormAttrs{.groups = 3}),
          norm_case({2, 2, 19}, 2, {2}, op::GroupNormAttrs{.groups = 1}),
          norm_case({1, 3, 2, 3, 2}, 2, {3}, op::GroupNormAttrs{.groups = 3}),
          norm_case({3, 2, 5}, 0, {}, op::GroupNormAttrs{.groups = 1, .eps = 0.1}),
          norm_case({0, 4, 3}, 2, {4}, op::GroupNormAttrs{.groups = 2})};
}

std::vector<OpCase> instance_cases() {
  return {norm_case({2, 3, 4}, 2, {3}, op::EpsAttrs{}),      norm_case({2, 3, 4}, 0, {}, op::EpsAttrs{}),
          norm_case({2, 3, 4}, 1, {3}, op::EpsAttrs{1e-2}),  norm_case({2, 2, 3, 3}, 2, {2}, op::EpsAttrs{}),
          norm_case({1, 2, 37}, 2, {2}, op::EpsAttrs{}),     norm_case({3, 1, 5}, 2, {1}, op::EpsAttrs{0.1}),
          norm_case({2, 2, 2, 3, 2}, 0, {}, op::EpsAttrs{}), norm_case({0, 2, 3}, 2, {2}, op::EpsAttrs{})};
}

}  // namespace

void register_ops_group_norm(OpRegistry& ops) {
  add_norm(ops, "group_norm", "(x - mean) / sqrt(var + eps) · weight + bias in groups of the channels of each image.",
           &attr_type<op::GroupNormAttrs>(), group_cases);
  add_norm(ops, "instance_norm", "(x - mean) / sqrt(var + eps) · weight + bias in each channel of each image.",
           &attr_type<op::EpsAttrs>(), instance_cases);
}

}  // namespace starling
