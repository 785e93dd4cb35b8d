#include "starling/ops/comm.h"

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"

namespace starling {

Tensor all_reduce(const Tensor& x, const AllReduceAttrs& attrs) {
  static const OpDef& op = find_op("all_reduce");
  return apply1(op, {x}, attrs);
}

void register_ops_comm(OpRegistry& ops) {
  ops.add({.name = "all_reduce",
           .doc = "The reduction of every rank's x, on every rank.",
           .inputs = {"x"},
           .attrs = &attr_type<AllReduceAttrs>(),
           .infer =
               [](const InferCall& call) {
                 const auto& reduce = call.attrs.as<AllReduceAttrs>().reduce.str();
                 check(reduce == "sum" || reduce == "max" || reduce == "min" || reduce == "product",
                       "[all_reduce] expected sum, max, min or product, got '{}'", reduce);
                 return Types{call.in[0]};
               },
           .gradient =
               [](const GradCall& c) {
                 const auto& a = c.attrs.as<AllReduceAttrs>();
                 check(a.reduce.str() == "sum", "[all_reduce] expected a sum to differentiate, got '{}'",
                       a.reduce.str());
                 return TensorList{all_reduce(c.grads[0], a)};
               },
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const Shape& shape : {Shape{7}, {0}, {}, {2, 3}, {33}, {4, 1, 5}, {1, 17}})
                   cases.push_back({{{.shape = shape}}, AllReduceAttrs{}});
                 cases.push_back({{{.shape = {3}}}, AllReduceAttrs{Symbol("sum"), Symbol("gradient")}});
                 // Integers, since only sums have gradients.
                 cases.push_back({{{.shape = {5}, .dtype = DType::i64}}, AllReduceAttrs{Symbol("max"), Symbol()}});
                 return cases;
               },
           .saves = kSavesNothing,
           .comm = true,
           .inplace = 0});
  ops.add({.name = "ordered_sum",
           .doc = "The sum of all ranks' shards, one after another in global order.",
           .inputs = {"xs..."},
           .attrs = &attr_type<OrderedSumAttrs>(),
           .infer =
               [](const InferCall& call) {
                 check(!call.in.empty(), "[ordered_sum] expected at least one shard, got none");
                 const auto& order = call.attrs.as<OrderedSumAttrs>().order.str();
                 check(order == "shard" || order == "tree", "[ordered_sum] expected the order shard or tree, got '{}'",
                       order);
                 for (const auto& type : call.in) {
                   check(type == call.in[0], "[ordered_sum] expected shards alike, got {} and {}",
                         to_string(call.in[0]), to_string(type));
                 }
                 return Types{call.in[0]};
               },
           .cases =
               [] {
                 return std::vector<OpCase>{
                     {{{.shape = {7}}, {.shape = {7}}, {.shape = {7}}}, OrderedSumAttrs{3}},
                     {{{.shape = {2, 3}}}, OrderedSumAttrs{1}},
                     {{{.shape = {0}}, {.shape = {0}}}, OrderedSumAttrs{2}},
                     {{{.shape = {19}}, {.shape = {19}}}, OrderedSumAttrs{2, Symbol("tree"), Symbol("gradient")}}};
               },
           .comm = true});
}

}  // namespace starling
