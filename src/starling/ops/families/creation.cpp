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
                 const auto one = [](Shape shape, DType from, DType to) {
                   return OpCase{{{.shape = shape, .low = 0, .high = 9, .dtype = from}}, CastAttrs{to}};
                 };
                 return std::vector<OpCase>{
                     one({3, 4}, DType::f64, DType::f64), one({5}, DType::i64, DType::f64),
                     one({0, 2}, DType::f64, DType::f64), one({}, DType::f64, DType::f64),
                     one({2, 3}, DType::f64, DType::i64), one({19}, DType::boolean, DType::i32),
                     one({2, 20}, DType::i32, DType::u8), one({2, 3, 2}, DType::f64, DType::boolean),
                     one({7}, DType::u8, DType::f64)};
               },
           .saves = kSavesNothing});
}

}  // namespace starling
