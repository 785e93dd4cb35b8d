#include "starling/ops/api/normalize.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/norm_view.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

TensorList operands(std::initializer_list<Tensor> required, const Tensor& weight, const Tensor& bias, const char* who) {
  TensorList in;
  for (const auto& t : required) in.push_back(t);
  check(weight.defined() || !bias.defined(), "[{}] expected a weight beside the bias, got none", who);
  if (weight.defined()) in.push_back(weight);
  if (bias.defined()) in.push_back(bias);
  return in;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::LayerNormAttrs& attrs) {
  return apply1(named_op<"layer_norm">(), operands({x}, weight, bias, "layer_norm"), attrs);
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, const op::LayerNormAttrs& attrs) {
  return apply1(named_op<"rms_norm">(), operands({x}, weight, {}, "rms_norm"), attrs);
}
Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::GroupNormAttrs& attrs) {
  return apply1(named_op<"group_norm">(), operands({x}, weight, bias, "group_norm"), attrs);
}
Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::EpsAttrs& attrs) {
  return apply1(named_op<"instance_norm">(), operands({x}, weight, bias, "instance_norm"), attrs);
}

namespace {

// Sample call with `affine` operands of the weight's shape after x.
OpCase made(Shape x, int affine, Shape weight, const Attrs& attrs) {
  OpCase c{{{.shape = x, .distinct = true}}, attrs};
  for (int i = 0; i < affine; ++i) c.in.push_back({.shape = weight, .low = 0.5, .high = 1.5});
  return c;
}

std::vector<OpCase> layer_cases(int most) {
  return {made({3, 5}, most, {5}, op::LayerNormAttrs{}),
          made({3, 5}, 0, {}, op::LayerNormAttrs{}),
          made({2, 3, 4}, 1, {4}, op::LayerNormAttrs{.eps = 1e-2}),
          made({2, 3, 4}, most, {3, 4}, op::LayerNormAttrs{.dims = 2}),
          made({2, 3, 4}, 0, {}, op::LayerNormAttrs{.dims = 3, .eps = 0.1}),
          made({2, 37}, most, {37}, op::LayerNormAttrs{}),
          made({7}, most, {7}, op::LayerNormAttrs{}),
          made({9, 17}, 1, {17}, op::LayerNormAttrs{}),
          made({0, 3}, most, {3}, op::LayerNormAttrs{})};
}

std::vector<OpCase> group_cases() {
  return {made({2, 4, 3}, 2, {4}, op::GroupNormAttrs{}),
          made({2, 4, 3}, 2, {4}, op::GroupNormAttrs{.groups = 2}),
          made({2, 4, 3}, 0, {}, op::GroupNormAttrs{.groups = 2}),
          made({2, 4, 3, 2}, 1, {4}, op::GroupNormAttrs{.groups = 4, .eps = 1e-2}),
          made({3, 6}, 2, {6}, op::GroupNormAttrs{.groups = 3}),
          made({2, 2, 19}, 2, {2}, op::GroupNormAttrs{.groups = 1}),
          made({1, 3, 2, 3, 2}, 2, {3}, op::GroupNormAttrs{.groups = 3}),
          made({3, 2, 5}, 0, {}, op::GroupNormAttrs{.groups = 1, .eps = 0.1}),
          made({0, 4, 3}, 2, {4}, op::GroupNormAttrs{.groups = 2})};
}

std::vector<OpCase> instance_cases() {
  return {made({2, 3, 4}, 2, {3}, op::EpsAttrs{}),      made({2, 3, 4}, 0, {}, op::EpsAttrs{}),
          made({2, 3, 4}, 1, {3}, op::EpsAttrs{1e-2}),  made({2, 2, 3, 3}, 2, {2}, op::EpsAttrs{}),
          made({1, 2, 37}, 2, {2}, op::EpsAttrs{}),     made({3, 1, 5}, 2, {1}, op::EpsAttrs{0.1}),
          made({2, 2, 2, 3, 2}, 0, {}, op::EpsAttrs{}), made({0, 2, 3}, 2, {2}, op::EpsAttrs{})};
}

void add_both(OpRegistry& ops, const char* name, const char* doc, const AttrType* attrs,
              std::vector<OpCase> (*cases)()) {
  OpDef forward = norm_forward(name, doc, attrs), backward = norm_backward(std::string(name) + "_backward", attrs);
  forward.cases = cases;
  const OpDef plain = backward;
  backward.cases = [plain, cases] { return norm_backward_cases(plain, cases()); };
  ops.add(std::move(forward));
  ops.add(std::move(backward));
}

}  // namespace

void register_ops_normalize(OpRegistry& ops) {
  add_both(ops, "layer_norm", "(x - mean) / sqrt(var + eps) · weight + bias over the last `dims` dimensions.",
           &attr_type<op::LayerNormAttrs>(), [] { return layer_cases(2); });
  add_both(ops, "rms_norm", "x / sqrt(mean(x²) + eps) · weight over the last `dims` dimensions.",
           &attr_type<op::LayerNormAttrs>(), [] { return layer_cases(1); });
  add_both(ops, "group_norm", "(x - mean) / sqrt(var + eps) · weight + bias in groups of the channels of each image.",
           &attr_type<op::GroupNormAttrs>(), group_cases);
  add_both(ops, "instance_norm", "(x - mean) / sqrt(var + eps) · weight + bias in each channel of each image.",
           &attr_type<op::EpsAttrs>(), instance_cases);
}

}  // namespace starling
