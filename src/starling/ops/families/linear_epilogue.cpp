#include "starling/ops/def/attrs/linear_epilogue.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

const OpDef* ending_op(Symbol activation) {
  const OpDef* op = op_registry().find(activation.str());
  if (op == nullptr || !op->elementwise() || op->inputs.size() != 1 || op->outputs.size() != 1) return nullptr;
  const auto& fields = op->attrs->fields;
  if (fields.size() > 1 || (fields.size() == 1 && fields[0].kind != AttrKind::real)) return nullptr;
  return op;
}

Attrs ending_attrs(const OpDef& op, double parameter) {
  Attrs attrs = Attrs::defaults(*op.attrs);
  if (!op.attrs->fields.empty()) attrs.get<double>(op.attrs->fields[0]) = parameter;
  return attrs;
}

namespace {

Types infer_epilogue(const InferCall& call) {
  const auto& a = call.attrs.as<op::LinearEpilogueAttrs>();
  const std::size_t wanted = 2 + std::size_t{a.biased} + std::size_t{a.residual};
  check(call.in.size() == wanted, "[linear_epilogue] expected {} operands, got {}", wanted, call.in.size());
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  rules::expect_rank(call, 1, 2);
  const Shape &x = call.in[0].shape, &w = call.in[1].shape;
  check(x.rank() >= 1 && x.back() == w[1], "[linear_epilogue] expected x [.., {}] for a weight {}, got {}", w[1],
        to_string(w), to_string(x));
  if (a.biased && call.in[2].shape != Shape{w[0]})
    fail("[linear_epilogue] expected a bias [{}], got {}", w[0], to_string(call.in[2].shape));
  TensorType y{call.in[0].dtype, x};
  y.shape[x.rank() - 1] = w[0];
  check(!a.residual || call.in.back() == y, "[linear_epilogue] expected a residual {}, got {}", to_string(y),
        to_string(call.in.back()));
  check(!a.keep || !a.activation.empty(),
        "[linear_epilogue] expected an activation to keep the value before, got none");
  if (!a.activation.empty()) {
    const OpDef* op = ending_op(a.activation);
    check(op != nullptr, "[linear_epilogue] expected an elementwise op of one operand and one number, got '{}'",
          a.activation.str());
    const Types after = infer(*op, {&y, 1}, ending_attrs(*op, a.parameter));
    check(after[0] == y, "[linear_epilogue] expected an activation that gives {}, got {}", to_string(y),
          to_string(after[0]));
  }
  return a.keep ? Types{y, y} : Types{y};
}

TensorList decompose_epilogue(std::span<const Tensor> in, const Attrs& attrs) {
  const auto& a = attrs.as<op::LinearEpilogueAttrs>();
  Tensor y = linear(in[0], in[1], a.biased ? in[2] : Tensor());
  if (a.residual) y = add(y, in.back());
  if (a.activation.empty()) return {y};
  const OpDef& op = *ending_op(a.activation);
  const Tensor end = apply1(op, {y}, ending_attrs(op, a.parameter));
  return a.keep ? TensorList{end, y} : TensorList{end};
}

std::vector<OpCase> ends_cases() {
  std::vector<OpCase> cases;
  const auto one = [&](Shape x, std::int64_t out, op::LinearEpilogueAttrs attrs) {
    OpCase c{{{.shape = x}, {.shape = {out, x.back()}}}, attrs};
    Shape y = x;
    y[y.rank() - 1] = out;
    if (attrs.biased) c.in.push_back({.shape = {out}});
    if (attrs.residual) c.in.push_back({.shape = y});
    cases.push_back(c);
  };
  one({3, 4}, 5, {.biased = true, .activation = Symbol("gelu")});
  one({3, 4}, 5, {.residual = true});
  one({2, 3, 4}, 6, {.biased = true, .residual = true, .activation = Symbol("relu")});
  one({17, 33}, 70, {.biased = true, .activation = Symbol("silu"), .keep = true});
  one({5, 3}, 2, {.activation = Symbol("leaky_relu"), .parameter = 0.2});
  one({70, 20}, 130, {.biased = true, .residual = true, .activation = Symbol("tanh"), .keep = true});
  one({0, 4}, 3, {.biased = true, .residual = true});
  one({4, 0}, 3, {.biased = true, .activation = Symbol("gelu")});
  one({4}, 3, {});
  return cases;
}

}  // namespace

void register_ops_linear_epilogue(OpRegistry& ops) {
  ops.add({.name = "linear_epilogue",
           .doc = "activation(x · weightᵀ + bias + residual), and the value before the activation if it is kept.",
           .inputs = {"x", "weight", "ends..."},
           .attrs = &attr_type<op::LinearEpilogueAttrs>(),
           .infer = infer_epilogue,
           .decompose = decompose_epilogue,
           .cases = ends_cases,
           .precision = Width::wide});
}

}  // namespace starling
