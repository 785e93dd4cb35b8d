#include "starling/ops/api/comm.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/comm_world.h"

namespace starling {

Tensor all_reduce(const Tensor& x, op::AllReduceAttrs attrs) {
  const WorldGroup group = find_group(current_world(), attrs.group, "all_reduce");
  // Sums and means need no rank, so the op is identical on every rank.
  if (attrs.reduce != ReduceOp::sum && attrs.reduce != ReduceOp::mean) {
    attrs.rank = group.rank;
    attrs.ranks = group.ranks;
  }
  return apply1(named_op<"all_reduce">(), {x}, attrs);
}

namespace {

void check_reduction(const InferCall& call, ReduceOp reduce) {
  const DType dtype = call.in[0].dtype;
  check(reduce != ReduceOp::mean || is_float(dtype), "[{}] expected floats for a mean, got {}", call.op.name,
        name(dtype));
  check(dtype != DType::boolean || reduce == ReduceOp::max || reduce == ReduceOp::min,
        "[{}] expected max (or) or min (and) for bool, got {}", call.op.name, name(reduce));
}

Types infer_all_reduce(const InferCall& call) {
  const auto& a = call.attrs.as<op::AllReduceAttrs>();
  check_reduction(call, a.reduce);
  check(a.ranks >= 1 && a.rank >= 0 && a.rank < a.ranks, "[all_reduce] expected a rank in [0, {}), got {}", a.ranks,
        a.rank);
  return Types{call.in[0]};
}

Types infer_many(const InferCall& call) {
  check(!call.in.empty(), "[all_reduce_many] expected at least one tensor, got none");
  check_reduction(call, call.attrs.as<op::AllReduceAttrs>().reduce);
  Types out;
  for (const auto& type : call.in) {
    check(type.dtype == call.in[0].dtype, "[all_reduce_many] expected tensors of one dtype, got {} and {}",
          name(call.in[0].dtype), name(type.dtype));
    out.push_back(type);
  }
  return out;
}

// The gradient goes to the lowest rank with the extreme value, as max() gives it to the first of equal elements.
Tensor extreme_gradient(const GradCall& c, const Tensor& total, const op::AllReduceAttrs& a) {
  const Tensor holder = where(equal(c.in[0], c.out[0]), scalar(static_cast<double>(a.rank), DType::i64),
                              scalar(static_cast<double>(a.ranks), DType::i64));
  op::AllReduceAttrs lowest = a;
  lowest.reduce = ReduceOp::min;
  const Tensor own = equal(apply1(c.op, {holder}, lowest), static_cast<double>(a.rank));
  return mul(total, cast(own, total.dtype()));
}

// Product of the other ranks' factors, computed without division, so that zeros are handled.
Tensor product_gradient(const GradCall& c, const Tensor& total, const op::AllReduceAttrs& a) {
  Shape row = c.in[0].shape();
  row.insert(0, 1);
  const op::PiecesAttrs pieces{.rank = a.rank, .ranks = a.ranks, .name = a.name, .group = a.group};
  const Tensor all = apply1(named_op<"all_gather">(), {reshape(c.in[0], row)}, pieces);
  std::vector<Tensor> factors;
  if (a.rank > 0) factors.push_back(slice(all, {.axis = 0, .begin = 0, .end = a.rank}));
  factors.push_back(full(row, 1.0, all.dtype()));
  if (a.rank + 1 < a.ranks) factors.push_back(slice(all, {.axis = 0, .begin = a.rank + 1, .end = a.ranks}));
  return mul(total, prod(concat(factors), {.axes = {0}}));
}

TensorList grad_all_reduce(const GradCall& c) {
  const auto& a = c.attrs.as<op::AllReduceAttrs>();
  const op::AllReduceAttrs back{
      .reduce = a.reduce == ReduceOp::mean ? ReduceOp::mean : ReduceOp::sum, .name = a.name, .group = a.group};
  const Tensor total = apply1(c.op, {c.grads[0]}, back);
  if (a.reduce == ReduceOp::max || a.reduce == ReduceOp::min) return {extreme_gradient(c, total, a)};
  if (a.reduce == ReduceOp::product) return {product_gradient(c, total, a)};
  return {total};
}

std::vector<OpCase> all_reduce_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{7}, {0}, {}, {2, 3}, {33}, {4, 1, 5}, {1, 17}})
    cases.push_back({{{.shape = shape}}, op::AllReduceAttrs{}});
  cases.push_back({{{.shape = {3}}}, op::AllReduceAttrs{ReduceOp::sum, Symbol("gradient")}});
  cases.push_back({{{.shape = {5}, .dtype = DType::i64}}, op::AllReduceAttrs{ReduceOp::max, Symbol()}});
  for (const ReduceOp reduce : {ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::product})
    cases.push_back({{{.shape = {2, 4}, .distinct = true}}, op::AllReduceAttrs{reduce, Symbol()}});
  cases.push_back({{{.shape = {6}, .distinct = true}}, op::AllReduceAttrs{ReduceOp::max, Symbol(), 1, 3}});
  cases.push_back({{{.shape = {3, 2}}}, op::AllReduceAttrs{.group = Symbol("model")}});
  return cases;
}

Types infer_ordered_sum(const InferCall& call) {
  const auto& a = call.attrs.as<op::OrderedSumAttrs>();
  check(!call.in.empty(), "[ordered_sum] expected at least one shard, got none");
  check(a.order.str() == "shard" || a.order.str() == "tree", "[ordered_sum] expected the order shard or tree, got '{}'",
        a.order.str());
  check(a.tensors >= 1 && call.in.size() % static_cast<std::size_t>(a.tensors) == 0,
        "[ordered_sum] expected as many shards of each of {} tensors, got {} operands", a.tensors, call.in.size());
  const std::size_t shards = call.in.size() / static_cast<std::size_t>(a.tensors);
  Types out;
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (i % shards == 0) out.push_back(call.in[i]);
    check(call.in[i] == out.back() && call.in[i].dtype == out[0].dtype,
          "[ordered_sum] expected shards alike, got {} and {}", to_string(out.back()), to_string(call.in[i]));
  }
  return out;
}

}  // namespace

void register_ops_comm(OpRegistry& ops) {
  ops.add({.name = "all_reduce",
           .doc = "The reduction of every rank's x, on every rank.",
           .inputs = {"x"},
           .attrs = &attr_type<op::AllReduceAttrs>(),
           .infer = infer_all_reduce,
           .gradient = grad_all_reduce,
           .cases = all_reduce_cases,
           .comm = true,
           .inplace = 0,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "all_reduce_many",
           .doc = "The reductions of several tensors of one dtype, by one exchange.",
           .inputs = {"xs..."},
           .outputs = {"ys"},
           .attrs = &attr_type<op::AllReduceAttrs>(),
           .infer = infer_many,
           .cases =
               [] {
                 return std::vector<OpCase>{
                     {{{.shape = {7}}, {.shape = {2, 3}}, {.shape = {}}}, op::AllReduceAttrs{}},
                     {{{.shape = {0}}, {.shape = {5}}}, op::AllReduceAttrs{ReduceOp::max, Symbol("bucket"), 1, 2}},
                     {{{.shape = {4}}, {.shape = {2}}}, op::AllReduceAttrs{.group = Symbol("data")}}};
               },
           .comm = true,
           .inplace = 0,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "ordered_sum",
           .doc = "The sum of all ranks' shards, one after another in global order.",
           .inputs = {"xs..."},
           .attrs = &attr_type<op::OrderedSumAttrs>(),
           .infer = infer_ordered_sum,
           .cases =
               [] {
                 const CaseInput a{.shape = {7}}, b{.shape = {3, 2}};
                 return std::vector<OpCase>{
                     {{a, a, a}, op::OrderedSumAttrs{3}},
                     {{{.shape = {2, 3}}}, op::OrderedSumAttrs{1}},
                     {{{.shape = {0}}, {.shape = {0}}}, op::OrderedSumAttrs{2}},
                     {{a, a, b, b}, op::OrderedSumAttrs{2, Symbol("shard"), Symbol(), 2}},
                     {{a, a}, op::OrderedSumAttrs{.shards = 2, .group = Symbol("data")}},
                     {{{.shape = {19}}, {.shape = {19}}}, op::OrderedSumAttrs{2, Symbol("tree"), Symbol("gradient")}}};
               },
           .comm = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
