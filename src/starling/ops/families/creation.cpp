#include "starling/ops/creation.h"

#include "starling/ops/registry.h"
#include "starling/ops/rules.h"

namespace starling {

Tensor full(const Shape& shape, double value, DType dtype) {
  static const OpDef& op = find_op("full");
  return apply1(op, {}, FullAttrs{shape, value, dtype});
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  static const OpDef& op = find_op("cast");
  return apply1(op, {x}, CastAttrs{dtype});
}

void register_ops_creation(OpRegistry& ops) {
  ops.add({.name = "full",
           .doc = "A tensor with one value everywhere.",
           .inputs = {},
           .attrs = &attr_type<FullAttrs>(),
           .infer =
               [](const InferCall& call) {
                 const auto& a = call.attrs.as<FullAttrs>();
                 return Types{{a.dtype, a.shape}};
               },
           .shard = rules::shard_replicated,
           .cases =
               [] {
                 return std::vector<OpCase>{{{}, FullAttrs{{2, 3}, 1.5, DType::f64}},
                                            {{}, FullAttrs{{}, -2.0, DType::f64}},
                                            {{}, FullAttrs{{0, 4}, 1.0, DType::f64}}};
               }});
  ops.add({.name = "cast",
           .doc = "The same values in another dtype; floats become integers by dropping the fraction.",
           .inputs = {"x"},
           .attrs = &attr_type<CastAttrs>(),
           .infer =
               [](const InferCall& call) {
                 return Types{{call.attrs.as<CastAttrs>().dtype, call.in[0].shape}};
               },
           .gradient =
               [](const GradCall& call) {
                 if (!is_float(call.in[0].dtype())) return TensorList{Tensor()};
                 return TensorList{cast(call.grads[0], call.in[0].dtype())};
               },
           .shard = rules::shard_linear_elementwise,
           .cases =
               [] {
                 return std::vector<OpCase>{
                     {{{.shape = {3, 4}}}, CastAttrs{DType::f64}},
                     {{{.shape = {5}, .low = 0, .high = 9, .dtype = DType::i64}}, CastAttrs{DType::f64}},
                     {{{.shape = {0, 2}}}, CastAttrs{DType::f64}}};
               },
           .saves = kSavesNothing});
}

}  // namespace starling
