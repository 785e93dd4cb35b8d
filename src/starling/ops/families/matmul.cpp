#include "starling/ops/api/matmul.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/sharding/factors.h"
#include "starling/tensor/shape_parts.h"

namespace starling {

namespace {

// A vector is a row on the left and a column on the right; the result drops that dimension.
Tensor matmul_vector(const Tensor& a, const Tensor& b, const op::MatmulAttrs& attrs) {
  check(a.rank() >= 1 && b.rank() >= 1, "[matmul] expected matrices or vectors, got {} and {}", to_string(a.shape()),
        to_string(b.shape()));
  check(!(a.rank() == 1 && attrs.trans_a) && !(b.rank() == 1 && attrs.trans_b),
        "[matmul] expected a matrix where one is transposed, got {} and {}", to_string(a.shape()),
        to_string(b.shape()));
  const Tensor left = a.rank() == 1 ? reshape(a, {1, a.shape()[0]}) : a;
  const Tensor right = b.rank() == 1 ? reshape(b, {b.shape()[0], 1}) : b;
  const Tensor product = matmul(left, right, attrs);
  Shape shape = product.shape();
  if (b.rank() == 1) shape.erase(shape.rank() - 1);
  if (a.rank() == 1) shape.erase(shape.rank() - (b.rank() == 1 ? 1 : 2));
  return reshape(product, shape);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const op::MatmulAttrs& attrs) {
  static const OpDef& op = find_op("matmul");
  if (a.rank() < 2 || b.rank() < 2) return matmul_vector(a, b, attrs);
  return apply1(op, {a, b}, attrs);
}

namespace {

// True for activations whose gradient follows from their output; they can be a product's epilogue in registers.
bool in_epilogue(Symbol activation) {
  const auto& name = activation.str();
  return name.empty() || name == "relu" || name == "tanh" || name == "sigmoid";
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::LinearAttrs& attrs) {
  static const OpDef& op = find_op("linear");
  if (!in_epilogue(attrs.activation)) return op::activate(attrs.activation, linear(x, weight, bias));
  if (bias.defined()) return apply1(op, {x, weight, bias}, attrs);
  return apply1(op, {x, weight}, attrs);
}

Tensor op::activate(Symbol activation, const Tensor& x) {
  if (activation.empty()) return x;
  const OpDef* op = op_registry().find(activation.str());
  check(op != nullptr && op->elementwise() && op->inputs.size() == 1,
        "[linear] expected an elementwise op of one operand as the activation, got '{}'", activation.str());
  return apply1(*op, {x}, Attrs::defaults(*op->attrs));
}

Tensor op::activation_backward(Symbol activation, const Tensor& dy, const Tensor& y) {
  if (activation.empty()) return dy;
  return apply1(find_op(activation.str() + "_backward"), {dy, y});
}

namespace {

struct MatrixSides {
  std::int64_t m, n, k;
};

MatrixSides sides(const InferCall& call, bool trans_a, bool trans_b) {
  const Shape& a = call.in[0].shape;
  const Shape& b = call.in[1].shape;
  check(a.rank() >= 2 && b.rank() >= 2, "[{}] expected matrices, got {} and {}", call.op.name, to_string(a),
        to_string(b));
  rules::expect_same_dtype(call);
  const auto m = trans_a ? a.back() : a[a.rank() - 2];
  const auto ka = trans_a ? a[a.rank() - 2] : a.back();
  const auto kb = trans_b ? b.back() : b[b.rank() - 2];
  const auto n = trans_b ? b[b.rank() - 2] : b.back();
  check(ka == kb, "[{}] expected inner sizes to agree, got {}{} and {}{}", call.op.name, to_string(a),
        trans_a ? " transposed" : "", to_string(b), trans_b ? " transposed" : "");
  return {m, n, ka};
}

Types infer_product(const InferCall& call, bool trans_a, bool trans_b) {
  const auto [m, n, k] = sides(call, trans_a, trans_b);
  Shape shape = broadcast_shapes(stack_sizes(call.in[0].shape), stack_sizes(call.in[1].shape), call.op.name.c_str());
  shape.push_back(m);
  shape.push_back(n);
  return {TensorType{call.in[0].dtype, shape}};
}

Types infer_matmul(const InferCall& call) {
  const auto& a = call.attrs.as<op::MatmulAttrs>();
  const DType dtype = call.in[0].dtype;
  check(is_float(dtype) || dtype == DType::i32 || dtype == DType::i64, "[matmul] expected floats, i32 or i64, got {}",
        to_string(call.in[0]));
  return infer_product(call, a.trans_a, a.trans_b);
}

Tensor rows(const Tensor& x) {
  if (x.rank() == 2) return x;
  std::int64_t count = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) count *= x.shape()[i];
  return reshape(x, {count, x.shape().back()});
}

// Gradient of one matrix b shared by the batch of a: the batch is part of the sum, without a gradient per batch entry.
Tensor grad_shared(const Tensor& a, const Tensor& g, bool trans_b) {
  return trans_b ? matmul(rows(g), rows(a), {.trans_a = true}) : matmul(rows(a), rows(g), {.trans_a = true});
}

TensorList grad_matmul(const GradCall& c) {
  const auto& at = c.attrs.as<op::MatmulAttrs>();
  const Tensor& a = c.in[0];
  const Tensor& b = c.in[1];
  const Tensor& g = c.grads[0];
  TensorList out(2);
  if (c.needs(0)) {
    out[0] =
        at.trans_a ? matmul(b, g, {.trans_a = at.trans_b, .trans_b = true}) : matmul(g, b, {.trans_b = !at.trans_b});
    out[0] = rules::sum_to(out[0], a.shape());
  }
  if (c.needs(1) && b.rank() == 2 && a.rank() > 2 && !at.trans_a) {
    out[1] = grad_shared(a, g, at.trans_b);
  } else if (c.needs(1)) {
    out[1] =
        at.trans_b ? matmul(g, a, {.trans_a = true, .trans_b = at.trans_a}) : matmul(a, g, {.trans_a = !at.trans_a});
    out[1] = rules::sum_to(out[1], b.shape());
  }
  return out;
}

// Dimension of an operand that stands for dimension `dim` of the batch, counted in the result; kNone where it has none
// or is repeated along it.
std::int8_t batch_dim(const Shape& operand, const Shape& out, int dim) {
  const int own = dim - out.rank() + operand.rank();
  return static_cast<std::int8_t>(own >= 0 && operand[own] == out[dim] ? own : Factor::kNone);
}

// Batch dimensions, rows, the inner index that is summed, and columns.
Factors product_factors(const ShardCall& call, bool trans_a, bool trans_b) {
  const Shape &a = call.in[0].shape, &b = call.in[1].shape, &out = call.out[0].shape;
  const auto dim = [](int i) { return static_cast<std::int8_t>(i); };
  Factors factors{.linear = 0b11};
  for (int d = 0; d < out.rank() - 2; ++d)
    factors.all.push_back({{batch_dim(a, out, d), batch_dim(b, out, d)}, {dim(d)}});
  const int m = a.rank() - (trans_a ? 1 : 2), ka = a.rank() - (trans_a ? 2 : 1);
  const int n = b.rank() - (trans_b ? 2 : 1), kb = b.rank() - (trans_b ? 1 : 2);
  factors.all.push_back({{dim(m), Factor::kNone}, {dim(out.rank() - 2)}});
  factors.all.push_back({{dim(ka), dim(kb)}, {Factor::kNone}});
  factors.all.push_back({{Factor::kNone, dim(n)}, {dim(out.rank() - 1)}});
  return factors;
}

ShardRule shard_product(const ShardCall& call, bool trans_a, bool trans_b) {
  return rules::shard_factors(call, product_factors(call, trans_a, trans_b));
}

void check_activation(const InferCall& call, Symbol activation) {
  check(in_epilogue(activation), "[{}] expected an activation of relu, tanh, sigmoid or none, got '{}'", call.op.name,
        activation.str());
}

Types infer_linear(const InferCall& call) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  rules::expect_rank(call, 1, 2);
  check_activation(call, call.attrs.as<op::LinearAttrs>().activation);
  const Shape& x = call.in[0].shape;
  const Shape& w = call.in[1].shape;
  check(x.rank() >= 1 && x.back() == w[1], "[linear] expected x [.., {}] for a weight {}, got {}", w[1], to_string(w),
        to_string(x));
  if (call.in.size() == 3) {
    check(call.in[2].shape == Shape{w[0]}, "[linear] expected a bias [{}], got {}", w[0], to_string(call.in[2].shape));
  }
  Shape out = x;
  out[out.rank() - 1] = w[0];
  return {TensorType{call.in[0].dtype, out}};
}

TensorList grad_linear(const GradCall& c) {
  const Tensor g = rows(op::activation_backward(c.attrs.as<op::LinearAttrs>().activation, c.grads[0], c.out[0]));
  TensorList out(c.in.size());
  if (c.needs(0)) out[0] = reshape(matmul(g, c.in[1]), c.in[0].shape());
  if (c.needs(1)) out[1] = matmul(g, rows(c.in[0]), {.trans_a = true});
  if (c.in.size() == 3 && c.needs(2)) out[2] = sum(g, {.axes = {0}});
  return out;
}

// Leading dimensions of x, columns, and the inner index: a bias is then shared among the terms of the sum.
Factors linear_factors(const ShardCall& call) {
  const bool bias = call.in.size() == 3;
  const auto last = static_cast<std::int8_t>(call.out[0].shape.rank() - 1);
  const auto factor = [&](std::int8_t x, std::int8_t weight, std::int8_t added, std::int8_t y) {
    Factor made{{x, weight}, {y}};
    if (bias) made.in.push_back(added);
    return made;
  };
  Factors factors;
  for (std::int8_t d = 0; d < last; ++d) factors.all.push_back(factor(d, Factor::kNone, Factor::kNone, d));
  factors.all.push_back(factor(Factor::kNone, 0, 0, last));
  factors.all.push_back(factor(last, 1, Factor::kTerm, Factor::kNone));
  return factors;
}

// An activation is of the sum, not of its terms.
ShardRule shard_linear(const ShardCall& call) {
  ShardRule rule = rules::shard_factors(call, linear_factors(call));
  rule.unfuse = rule.out[0].is_partial() && !call.attrs.as<op::LinearAttrs>().activation.empty();
  return rule;
}

std::vector<OpCase> matmul_cases() {
  const auto two = [](Shape a, Shape b, op::MatmulAttrs attrs) { return OpCase{{{.shape = a}, {.shape = b}}, attrs}; };
  return {two({3, 4}, {4, 5}, {}),
          two({4, 3}, {4, 5}, {.trans_a = true}),
          two({3, 4}, {5, 4}, {.trans_b = true}),
          two({4, 3}, {5, 4}, {true, true}),
          two({2, 3, 4}, {2, 4, 5}, {}),
          two({2, 3, 4}, {4, 5}, {}),
          two({0, 4}, {4, 5}, {}),
          two({3, 0}, {0, 5}, {}),
          two({2, 1, 3, 4}, {3, 5, 4}, {.trans_b = true}),
          two({2, 4, 3}, {4, 5}, {.trans_a = true}),
          two({2, 3, 4}, {5, 4}, {.trans_b = true}),
          two({9, 17}, {17, 33}, {}),
          two({7, 6, 8}, {7, 8, 5}, {}),
          OpCase{{{.shape = {2, 3, 4}, .low = -9, .high = 9, .dtype = DType::i64},
                  {.shape = {5, 4}, .low = -9, .high = 9, .dtype = DType::i64}},
                 op::MatmulAttrs{.trans_b = true}},
          OpCase{{{.shape = {4, 3}, .low = -9, .high = 9, .dtype = DType::i32},
                  {.shape = {4, 18}, .low = -9, .high = 9, .dtype = DType::i32}},
                 op::MatmulAttrs{.trans_a = true}}};
}

std::vector<OpCase> linear_cases() {
  const auto three = [](Shape x, std::int64_t out, const char* act) {
    const auto in = x.back();
    return OpCase{{{.shape = x}, {.shape = {out, in}}, {.shape = {out}}}, op::LinearAttrs{Symbol(act)}};
  };
  return {three({3, 4}, 5, ""),           three({3, 4}, 5, "tanh"),
          three({2, 3, 4}, 2, "sigmoid"), three({4}, 3, ""),
          three({0, 4}, 3, ""),           {{{.shape = {3, 4}}, {.shape = {5, 4}}}, op::LinearAttrs{}},
          three({17, 33}, 19, "tanh"),    three({3, 0}, 4, "")};
}

double flops_of_matmul(const CostCall& call) {
  return 2 * costs::elements(call.out[0]) * costs::product_depth(call, 0);
}
double flops_of_matmul_act(const CostCall& call) { return flops_of_matmul(call) + 2 * costs::elements(call.out[0]); }
double flops_of_linear(const CostCall& call) {
  const double y = costs::elements(call.out[0]);
  return 2 * y * costs::size(call.in[1], -1) + (call.in.size() > 2 ? y : 0) + (costs::activated(call) ? y : 0);
}

void register_fused(OpRegistry& ops) {
  ops.add({.name = "matmul_act",
           .doc = "matmul(a, b) · act'(y): a product and the activation's gradient in one pass.",
           .inputs = {"a", "b", "y"},
           .outputs = {"c"},
           .attrs = &attr_type<op::MatmulActAttrs>(),
           .infer =
               [](const InferCall& call) {
                 const auto& at = call.attrs.as<op::MatmulActAttrs>();
                 check_activation(call, at.activation);
                 rules::expect_float(call);
                 Types types = infer_product(call, at.trans_a, at.trans_b);
                 check(call.in[2] == types[0], "[matmul_act] expected y of {}, got {}", to_string(types[0]),
                       to_string(call.in[2]));
                 return types;
               },
           .decompose =
               [](std::span<const Tensor> in, const Attrs& attrs) {
                 const auto& at = attrs.as<op::MatmulActAttrs>();
                 return TensorList{
                     op::activation_backward(at.activation, matmul(in[0], in[1], {at.trans_a, at.trans_b}), in[2])};
               },
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {3, 4}}, {.shape = {4, 5}}, {.shape = {3, 5}}},
                                             op::MatmulActAttrs{false, false, Symbol("tanh")}},
                                            {{{.shape = {9, 20}}, {.shape = {20, 33}}, {.shape = {9, 33}}},
                                             op::MatmulActAttrs{false, false, Symbol("relu")}},
                                            {{{.shape = {20, 9}}, {.shape = {33, 20}}, {.shape = {9, 33}}},
                                             op::MatmulActAttrs{true, true, Symbol("sigmoid")}}};
               },
           .cost = {flops_of_matmul_act},
           .precision = Width::wide});
}

}  // namespace

void register_ops_matmul(OpRegistry& ops) {
  ops.add({.name = "matmul",
           .doc = "The matrix product; leading dimensions broadcast.",
           .inputs = {"a", "b"},
           .outputs = {"c"},
           .attrs = &attr_type<op::MatmulAttrs>(),
           .infer = infer_matmul,
           .gradient = grad_matmul,
           .shard =
               [](const ShardCall& call) {
                 const auto& at = call.attrs.as<op::MatmulAttrs>();
                 return shard_product(call, at.trans_a, at.trans_b);
               },
           .cases = matmul_cases,
           .saves = kSavesInputs,
           .cost = {flops_of_matmul},
           .precision = Width::narrow,
           .by_index = true});
  ops.add({.name = "linear",
           .doc = "x · weightᵀ + bias, through an activation if one is named.",
           .inputs = {"x", "weight", "bias?"},
           .attrs = &attr_type<op::LinearAttrs>(),
           .infer = infer_linear,
           .gradient = grad_linear,
           .decompose =
               [](std::span<const Tensor> in, const Attrs& attrs) {
                 const Tensor plain = in.size() == 3 ? linear(in[0], in[1], in[2]) : linear(in[0], in[1]);
                 return TensorList{op::activate(attrs.as<op::LinearAttrs>().activation, plain)};
               },
           .shard = shard_linear,
           .cases = linear_cases,
           .saves = kSavesAll,
           .cost = {flops_of_linear},
           .precision = Width::narrow,
           .by_index = true});
  register_fused(ops);
}

}  // namespace starling
