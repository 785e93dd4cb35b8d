#include "starling/ops/api/state.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/row_sparse.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/learning_rate.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/sharding/update_shard.h"

namespace starling {

void assign(const Tensor& variable, const Tensor& value) {
  static const OpDef& op = find_op("identity");
  if (!(variable.type() == value.type())) {
    fail("[assign] expected a value of {}, got {}", to_string(variable.type()), to_string(value.type()));
  }
  apply_into(op, {&value, 1}, op::NoAttrs{}, {&variable, 1});
}

namespace {

constexpr const char* kConstantName = "(constant)";

}  // namespace

Tensor constant(const Tensor& value) {
  if (value.traced()) return value;
  Tensor marked = value.detach();
  marked.set_name(kConstantName);
  return marked;
}

bool op::is_constant(const Tensor& value) { return value.name() == kConstantName; }

void op::sgd_update(const Tensor& w, const Tensor& v, const Tensor& g, const Tensor& lr, const op::SgdAttrs& attrs) {
  static const OpDef& op = find_op("sgd_update");
  if (is_row_sparse(g)) return op::sgd_update_rows(w, v, rows_of(g), row_values(g), lr, attrs);
  const Tensor in[] = {w, v, g, lr};
  const Tensor targets[] = {w, v};
  apply_into(op, in, attrs, targets);
}

namespace {

Types infer_source(const InferCall& call) {
  const auto& a = call.attrs.as<op::SourceAttrs>();
  return {TensorType{a.dtype, a.shape}};
}

OpDef source(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {},
          .attrs = &attr_type<op::SourceAttrs>(),
          .infer = infer_source,
          .stateful = true,
          .cost = costs::none(),
          .precision = Width::wide};
}

void expect_lr(const InferCall& call) {
  check(!call.in.empty(), "[{}] expected operands, got none", call.op.name);
  check(op::is_rate(call.in.back(), call.in[0]), "[{}] expected lr f32[], or f64[] for weights of f64, got {}",
        call.op.name, to_string(call.in.back()));
}

Types infer_sgd(const InferCall& call) {
  rules::expect_float(call);
  expect_lr(call);
  check(call.in[0] == call.in[1] && call.in[0] == call.in[2],
        "[sgd_update] expected w, v and g alike, got {}, {} and {}", to_string(call.in[0]), to_string(call.in[1]),
        to_string(call.in[2]));
  return {call.in[0], call.in[1]};
}

// Operands: all w, all v, all g, then lr; output i overwrites input i.
Types infer_sgd_many(const InferCall& call) {
  expect_lr(call);
  rules::expect_float(call);
  const std::size_t n = call.in.size() / 3;
  check(call.in.size() == 3 * n + 1 && n > 0, "[sgd_update_many] expected w…, v…, g… and lr, got {} operands",
        call.in.size());
  Types out;
  for (std::size_t i = 0; i < 2 * n; ++i) out.push_back(call.in[i]);
  for (std::size_t i = 0; i < n; ++i) {
    check(call.in[i] == call.in[n + i] && call.in[i] == call.in[2 * n + i] && call.in[i].dtype == call.in[0].dtype,
          "[sgd_update_many] expected w, v and g alike, got {}, {} and {}", to_string(call.in[i]),
          to_string(call.in[n + i]), to_string(call.in[2 * n + i]));
  }
  return out;
}

Types infer_matmul_sgd(const InferCall& call) {
  expect_lr(call);
  const auto& a = call.attrs.as<op::MatmulSgdAttrs>();
  const TensorType product[] = {call.in[2], call.in[3]};
  const Attrs attrs = op::MatmulAttrs{a.trans_a, a.trans_b};
  const Types g = infer(find_op("matmul"), product, attrs);
  check(call.in[0] == g[0] && call.in[1] == g[0], "[matmul_sgd] expected w and v of {}, got {} and {}", to_string(g[0]),
        to_string(call.in[0]), to_string(call.in[1]));
  return {call.in[0], call.in[1]};
}

TensorList step_pure(const Tensor& w, const Tensor& v, const Tensor& g, const Tensor& lr, const op::SgdAttrs& a) {
  const Tensor decayed = a.weight_decay != 0 ? add(g, mul(w, a.weight_decay)) : g;
  const Tensor velocity = add(mul(v, a.momentum), decayed);
  const Tensor direction = a.nesterov ? add(decayed, mul(velocity, a.momentum)) : velocity;
  return {sub(w, mul(direction, cast(lr, w.dtype()))), velocity};
}

std::vector<OpCase> sgd_cases() {
  const auto one = [](Shape s, op::SgdAttrs a) {
    return OpCase{
        {{.shape = s}, {.shape = s}, {.shape = s}, {.shape = {}, .low = 0.01, .high = 0.1, .dtype = DType::f32}}, a};
  };
  return {one({7}, {0.9}), one({33, 5}, {0.9, 0.01, true}), one({0}, {0.5}), one({4}, {})};
}

double flops_of_sgd(const CostCall& call) { return costs::sgd_each(call) * costs::elements(call.in[0]); }
double flops_of_sgd_many(const CostCall& call) {
  double weights = 0;
  for (const auto& type : call.out) weights += costs::elements(type);
  return costs::sgd_each(call) * weights / 2;  // half of the results are velocities
}
double flops_of_matmul_sgd(const CostCall& call) {
  return costs::elements(call.in[0]) * (2 * costs::product_depth(call, 2) + costs::sgd_each(call));
}

void register_updates(OpRegistry& ops) {
  ops.add({.name = "sgd_update",
           .doc = "One step of SGD with momentum: new weights and velocity.",
           .inputs = {"w", "v", "g", "lr"},
           .outputs = {"w", "v"},
           .attrs = &attr_type<op::SgdAttrs>(),
           .infer = infer_sgd,
           .decompose = [](std::span<const Tensor> in,
                           const Attrs& at) { return step_pure(in[0], in[1], in[2], in[3], at.as<op::SgdAttrs>()); },
           .shard = [](const ShardCall& call) { return op::shard_update(call, {.targets = 2, .scalars = 1}); },
           .cases = sgd_cases,
           .inplace = 0,
           .cost = {flops_of_sgd},
           .precision = Width::wide});
  ops.add({.name = "sgd_update_many",
           .doc = "sgd_update of many tensors in one pass.",
           .inputs = {"ws_vs_gs_lr..."},
           .outputs = {"ws_vs"},
           .attrs = &attr_type<op::SgdAttrs>(),
           .infer = infer_sgd_many,
           .cases =
               [] {
                 const CaseInput lr{.shape = {}, .low = 0.01, .high = 0.1, .dtype = DType::f32}, a{.shape = {5}},
                     b{.shape = {2, 9}};
                 return std::vector<OpCase>{{{a, b, a, b, a, b, lr}, op::SgdAttrs{0.9, 0.01, false}},
                                            {{a, a, a, lr}, op::SgdAttrs{0.9, 0, true}}};
               },
           .inplace = 0,
           .cost = {flops_of_sgd_many},
           .precision = Width::wide});
  ops.add({.name = "matmul_sgd",
           .doc = "sgd_update with the gradient matmul(a, b), which is never stored.",
           .inputs = {"w", "v", "a", "b", "lr"},
           .outputs = {"w", "v"},
           .attrs = &attr_type<op::MatmulSgdAttrs>(),
           .infer = infer_matmul_sgd,
           .decompose =
               [](std::span<const Tensor> in, const Attrs& at) {
                 const auto& a = at.as<op::MatmulSgdAttrs>();
                 return step_pure(in[0], in[1], matmul(in[2], in[3], {a.trans_a, a.trans_b}), in[4],
                                  {a.momentum, a.weight_decay, false});
               },
           .cases =
               [] {
                 const CaseInput lr{.shape = {}, .low = 0.01, .high = 0.1, .dtype = DType::f32}, w{.shape = {20, 33}};
                 return std::vector<OpCase>{
                     {{w, w, {.shape = {9, 20}}, {.shape = {9, 33}}, lr}, op::MatmulSgdAttrs{true, false, 0.9, 0.01}},
                     {{w, w, {.shape = {20, 4}}, {.shape = {4, 33}}, lr}, op::MatmulSgdAttrs{false, false, 0.5, 0}},
                     {{w, w, {.shape = {20, 4}}, {.shape = {33, 4}}, lr}, op::MatmulSgdAttrs{false, true, 0.5, 0}}};
               },
           .inplace = 0,
           .cost = {flops_of_matmul_sgd},
           .precision = Width::wide});
}

}  // namespace

void register_ops_state(OpRegistry& ops) {
  ops.add(source("input", "An argument of the graph."));
  ops.add(source("variable", "The value of a variable when the program reaches this node."));
  ops.add(source("constant", "A tensor held by the graph."));
  ops.add({.name = "assign",
           .doc = "Gives a variable a new value.",
           .inputs = {"value"},
           .outputs = {},
           .attrs = &attr_type<op::AssignAttrs>(),
           .infer = [](const InferCall&) { return Types{}; },
           .stateful = true,
           .cost = costs::none(),
           .precision = Width::wide});
  ops.add({.name = "identity",
           .doc = "The same tensor.",
           .inputs = {"x"},
           .infer = rules::infer_same,
           .gradient = [](const GradCall& c) { return TensorList{c.grads[0]}; },
           .shard = rules::shard_linear_elementwise,
           .view =
               [](const ViewCall& call) {
                 return std::optional<View>({call.shape, call.strides});
               },
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const Shape& shape : {Shape{3, 4}, {}, {0, 3}, {33}, {2, 1, 5}, {1}, {7, 3}, {2, 2, 2, 2}})
                   cases.push_back({{{.shape = shape}}, op::NoAttrs{}});
                 return cases;
               },
           .saves = kSavesNothing,
           .inplace = 0});
  register_updates(ops);
}

}  // namespace starling
