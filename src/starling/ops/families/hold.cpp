#include "starling/ops/def/hold.h"

#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"

namespace starling {

Tensor hold(const Tensor& x, const Tensor& after) { return apply1(named_op<"hold">(), {x, after}); }

namespace {

std::vector<OpCase> hold_cases() {
  const auto one = [](const Shape& x, const Shape& after) {
    return OpCase{{{.shape = x}, {.shape = after}}, op::NoAttrs{}};
  };
  return {one({3, 4}, {2}),   one({}, {}),      one({33}, {0}),   one({0, 2}, {3}),
          one({2, 3, 4}, {}), one({1}, {4, 4}), one({5, 7}, {1}), one({2, 2, 2, 2}, {2, 2})};
}

}  // namespace

void register_ops_hold(OpRegistry& ops) {
  ops.add({.name = "hold",
           .doc = "The same tensor, once another one has been computed.",
           .inputs = {"x", "after"},
           .infer = [](const InferCall& call) { return Types{call.in[0]}; },
           .gradient =
               [](const GradCall& c) {
                 return TensorList{c.grads[0], Tensor()};
               },
           .shard =
               [](const ShardCall& call) {
                 return ShardRule{{call.layouts[0], call.layouts[1]}, {call.layouts[0]}};
               },
           .view =
               [](const ViewCall& call) {
                 return std::optional<View>({call.shape, call.strides});
               },
           .cases = hold_cases,
           .saves = kSavesNothing});
}

}  // namespace starling
