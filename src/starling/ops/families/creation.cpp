#include "starling/ops/api/creation.h"

#include "starling/ops/def/attrs/creation.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor full(const Shape& shape, double value, DType dtype) {
  static const OpDef& op = find_op("full");
  return apply1(op, {}, op::FullAttrs{shape, value, dtype});
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  static const OpDef& op = find_op("cast");
  return apply1(op, {x}, op::CastAttrs{dtype});
}

void register_ops_creation(OpRegistry& ops) {
  ops.add({.name = "full",
           .doc = "A tensor with one value everywhere.",
           .inputs = {},
           .attrs = &attr_type<op::FullAttrs>(),
           .infer =
               [](const InferCall& call) {
                 const auto& a = call.attrs.as<op::FullAttrs>();
                 return Types{{a.dtype, a.shape}};
               },
           .shard = rules::shard_replicated,
           .cases =
               [] {
                 return std::vector<OpCase>{{{}, op::FullAttrs{{2, 3}, 1.5, DType::f64}},
                                            {{}, op::FullAttrs{{}, -2.0, DType::f64}},
                                            {{}, op::FullAttrs{{0, 4}, 1.0, DType::f64}}};
               },
           .cost = costs::moves(),
           .precision = Width::wide});
  ops.add(
      {.name = "cast",
       .doc = "The same values in another dtype; floats become integers by dropping the fraction.",
       .inputs = {"x"},
       .attrs = &attr_type<op::CastAttrs>(),
       .infer =
           [](const InferCall& call) {
             return Types{{call.attrs.as<op::CastAttrs>().dtype, call.in[0].shape}};
           },
       .gradient =
           [](const GradCall& call) {
             if (!is_float(call.in[0].dtype())) return TensorList{Tensor()};
             return TensorList{cast(call.grads[0], call.in[0].dtype())};
           },
       .shard = rules::shard_linear_elementwise,
       .cases =
           [] {
             std::vector<OpCase> cases;
             for (const Shape& shape : {Shape{3, 4}, {}, {0, 2}, {33}, {2, 3, 4}, {1, 17}, {5}, {7, 1}})
               cases.push_back({{{.shape = shape}}, op::CastAttrs{DType::f64}});
             for (DType from : {DType::i64, DType::i32, DType::u8, DType::boolean})
               cases.push_back({{{.shape = {37}, .low = 0, .high = 1.99, .dtype = from}}, op::CastAttrs{DType::f64}});
             cases.push_back({{{.shape = {19}}}, op::CastAttrs{DType::i32}});
             return cases;
           },
       .saves = kSavesNothing,
       .cost = costs::moves(),
       .precision = Width::as_given});
}

}  // namespace starling
