#include "starling/ops/api/normalize.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/norm_view.h"
#include "starling/ops/def/registry.h"

namespace starling {

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::LayerNormAttrs& attrs) {
  return apply1(named_op<"layer_norm">(), with_affine({x}, weight, bias, "layer_norm"), attrs);
}
Tensor rms_norm(const Tensor& x, const Tensor& weight, const op::LayerNormAttrs& attrs) {
  return apply1(named_op<"rms_norm">(), with_affine({x}, weight, {}, "rms_norm"), attrs);
}

namespace {

std::vector<OpCase> layer_cases(int most) {
  return {norm_case({3, 5}, most, {5}, op::LayerNormAttrs{}),
          norm_case({3, 5}, 0, {}, op::LayerNormAttrs{}),
          norm_case({2, 3, 4}, 1, {4}, op::LayerNormAttrs{.eps = 1e-2}),
          norm_case({2, 3, 4}, most, {3, 4}, op::LayerNormAttrs{.dims = 2}),
          norm_case({2, 3, 4}, 0, {}, op::LayerNormAttrs{.dims = 3, .eps = 0.1}),
          norm_case({2, 37}, most, {37}, op::LayerNormAttrs{}),
          norm_case({7}, most, {7}, op::LayerNormAttrs{}),
          norm_case({9, 17}, 1, {17}, op::LayerNormAttrs{}),
          norm_case({0, 3}, most, {3}, op::LayerNormAttrs{})};
}

}  // namespace

void register_ops_layer_norm(OpRegistry& ops) {
  add_norm(ops, "layer_norm", "(x - mean) / sqrt(var + eps) · weight + bias over the last `dims` dimensions.",
           &attr_type<op::LayerNormAttrs>(), [] { return layer_cases(2); });
  add_norm(ops, "rms_norm", "x / sqrt(mean(x²) + eps) · weight over the last `dims` dimensions.",
           &attr_type<op::LayerNormAttrs>(), [] { return layer_cases(1); });
}

}  // namespace starling
