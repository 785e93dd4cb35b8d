#include "starling/ops/def/attrs/update.h"

#include <unordered_map>

#include "starling/base/error.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/sharding/update_shard.h"
#include "update_rules.gen.h"

namespace starling {

std::optional<op::UpdateOperands> op::update_operands(const OpDef& op, const Attrs& attrs) {
  using Make = op::UpdateOperands (*)(const Attrs&);
  static const std::unordered_map<std::string_view, Make> table = [] {
    std::unordered_map<std::string_view, Make> made{{"sgd_update", [](const Attrs&) {
                                                       return op::UpdateOperands{2, 1};
                                                     }}};
    op::for_update_rules(
        [&]<class A>() { made[A::kName] = [](const Attrs& a) { return op::update_operands(a.as<A>()); }; });
    return made;
  }();
  const auto found = table.find(op.name);
  if (found == table.end()) return std::nullopt;
  return found->second(attrs);
}

namespace {

void set_flag(Attrs& attrs, std::string_view name, bool on) { attrs.get<bool>(*attrs.find(name)) = on; }

// Row op of a rule, if it has one.
const OpDef* op_of_rows(const OpDef& op) {
  static const std::unordered_map<const OpDef*, const OpDef*> table = [] {
    std::unordered_map<const OpDef*, const OpDef*> made;
    op::for_update_rules([&]<class A>() {
      if constexpr (op::kHasRows<A>) made[&find_op(A::kName)] = &find_op(std::string(A::kName) + "_rows");
    });
    return made;
  }();
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

void op::update(const OpDef& op, Attrs attrs, std::span<const Tensor> targets, const Tensor& gradient,
                const op::UpdateScalars& scalars) {
  set_flag(attrs, "scaled", scalars.factor.defined());
  set_flag(attrs, "guarded", scalars.skip.defined());
  TensorList in;
  for (const auto& target : targets) in.push_back(target);
  const OpDef* rows = is_row_sparse(gradient) ? op_of_rows(op) : nullptr;
  if (rows) {
    in.push_back(rows_of(gradient));
    in.push_back(row_values(gradient));
  } else {
    in.push_back(dense(gradient));
  }
  for (const auto& scalar : {scalars.lr, scalars.t, scalars.mu, scalars.factor, scalars.skip}) {
    if (scalar.defined()) in.push_back(scalar);
  }
  apply_into(rows ? *rows : op, {in.data(), in.size()}, attrs, targets);
}

namespace {

void expect_scalar(const InferCall& call, std::size_t& at, DType dtype, const char* what) {
  check(call.in[at] == TensorType{dtype, {}}, "[{}] expected {} {}[], got {}", call.op.name, what, name(dtype),
        to_string(call.in[at]));
  ++at;
}

template <class A>
void expect_scalars(const InferCall& call, const A& attrs, std::size_t at) {
  const bool wide = call.in[0].dtype == DType::f64 && call.in[at].dtype == DType::f64;
  expect_scalar(call, at, wide ? DType::f64 : DType::f32, "lr");
  if (A::kScalars > 1) expect_scalar(call, at, DType::i64, "t");
  if (A::kScalars > 2) expect_scalar(call, at, call.in[at].dtype == DType::f64 ? DType::f64 : DType::f32, "mu");
  if (attrs.scaled) expect_scalar(call, at, DType::f32, "a factor");
  if (attrs.guarded) expect_scalar(call, at, DType::boolean, "skip");
}

// Upper bounds of attributes; decay rates are checked to be below 1. Larger numbers are mistakes, and their squares
// overflow f32.
double largest(std::string_view field) { return field == "eps" ? 1 : 1e6; }

void check_numbers(const InferCall& call) {
  for (const auto& field : call.attrs.type().fields) {
    if (field.kind != AttrKind::real) continue;
    const double value = call.attrs.get<double>(field);
    const bool share = field.name.starts_with("beta") || field.name == "rho" || field.name == "alpha";
    if (share)
      check(value >= 0 && value < 1, "[{}] expected {} in [0, 1), got {}", call.op.name, field.name, value);
    else
      check(value >= 0 && value <= largest(field.name), "[{}] expected {} in [0, {}], got {}", call.op.name, field.name,
            largest(field.name), value);
  }
}

template <class A>
Types infer_update(const InferCall& call) {
  const A& attrs = call.attrs.as<A>();
  check_numbers(call);
  if constexpr (requires { attrs.expect_valid(call.op.name); }) attrs.expect_valid(call.op.name);
  const op::UpdateOperands operands = op::update_operands(attrs);
  const std::size_t count = call.in.size();
  check(count > operands.scalars && (count - operands.scalars) % (operands.targets + 1) == 0,
        "[{}] expected {} operands for each tensor and {} scalars, got {} operands", call.op.name, operands.targets + 1,
        operands.scalars, count);
  rules::expect_float(call);
  const std::size_t n = operands.tensors(count);
  Types out;
  for (std::size_t i = 0; i < n * operands.targets; ++i) out.push_back(call.in[i]);
  for (std::size_t i = 0; i < n * (operands.targets + 1); ++i) {
    check(call.in[i] == call.in[i % n] && call.in[i].dtype == call.in[0].dtype,
          "[{}] expected states and gradients like their weights and weights of one dtype, got {} beside {}",
          call.op.name, to_string(call.in[i]), to_string(call.in[i % n]));
  }
  expect_scalars(call, attrs, n * (operands.targets + 1));
  return out;
}

// (targets…, rows, values, scalars…) → (targets…).
template <class A>
Types infer_update_rows(const InferCall& call) {
  const A& attrs = call.attrs.as<A>();
  check_numbers(call);
  const op::UpdateOperands operands = op::update_operands(attrs);
  const std::size_t rows = operands.targets;
  check(call.in.size() == rows + 2 + operands.scalars, "[{}] expected {} targets, rows, values and {} scalars, got {}",
        call.op.name, rows, operands.scalars, call.in.size());
  rules::expect_float(call);
  TensorType values = call.in[0];
  check(values.shape.rank() > 0 && call.in[rows].dtype == DType::i64 && call.in[rows].shape.rank() == 1,
        "[{}] expected weights with rows and rows i64[n], got {} and {}", call.op.name, to_string(values),
        to_string(call.in[rows]));
  values.shape[0] = call.in[rows].shape[0];
  check(call.in[rows + 1] == values, "[{}] expected values {}, got {}", call.op.name, to_string(values),
        to_string(call.in[rows + 1]));
  Types out;
  for (std::size_t i = 0; i < rows; ++i) {
    check(call.in[i] == call.in[0], "[{}] expected states like the weights {}, got {}", call.op.name,
          to_string(call.in[0]), to_string(call.in[i]));
    out.push_back(call.in[i]);
  }
  expect_scalars(call, attrs, rows + 2);
  return out;
}

constexpr CaseInput kWeight{};

template <class A>
std::vector<CaseInput> states_of(const A& attrs) {
  if constexpr (requires { attrs.sample_states(); })
    return attrs.sample_states();
  else
    return std::vector<CaseInput>(attrs.states(), op::kSampleSquares);
}

template <class A>
void add_scalars(const A& attrs, std::vector<CaseInput>& in) {
  in.push_back({.shape = {}, .low = 0.01, .high = 0.1, .dtype = DType::f32});
  if (A::kScalars > 1) in.push_back({.shape = {}, .low = 1, .high = 9, .dtype = DType::i64});
  if (A::kScalars > 2) in.push_back({.shape = {}, .low = 0.2, .high = 0.7});
  if (attrs.scaled) in.push_back({.shape = {}, .low = 0.2, .high = 3, .dtype = DType::f32});
  if (attrs.guarded) in.push_back({.shape = {}, .low = 0, .high = 2, .dtype = DType::boolean});
}

CaseInput shaped(CaseInput input, const Shape& shape) {
  input.shape = shape;
  return input;
}

template <class A>
OpCase case_of(const A& attrs, const std::vector<Shape>& shapes) {
  std::vector<CaseInput> kinds{kWeight};
  for (const auto& state : states_of(attrs)) kinds.push_back(state);
  kinds.push_back(kWeight);
  std::vector<CaseInput> in;
  for (const auto& kind : kinds) {
    for (const auto& shape : shapes) in.push_back(shaped(kind, shape));
  }
  add_scalars(attrs, in);
  return {std::move(in), attrs};
}

template <class A>
OpCase rows_case_of(const A& attrs, const Shape& shape, std::int64_t n) {
  std::vector<CaseInput> in{shaped(kWeight, shape)};
  for (const auto& state : states_of(attrs)) in.push_back(shaped(state, shape));
  in.push_back({.shape = {n}, .low = 0, .high = static_cast<double>(shape[0]), .dtype = DType::i64});
  Shape values = shape;
  values[0] = n;
  in.push_back(shaped(kWeight, values));
  add_scalars(attrs, in);
  return {std::move(in), attrs};
}

// Sample attributes: every number and flag of a rule off its default, one by one and all together.
template <class A>
std::vector<A> variants() {
  std::vector<A> all{A{}};
  Attrs every = A{};
  for (const auto& field : attr_type<A>().fields) {
    Attrs one = A{};
    for (Attrs* attrs : {&one, &every}) {
      if (field.kind == AttrKind::boolean)
        attrs->get<bool>(field) = true;
      else
        attrs->get<double>(field) = 0.5 * attrs->get<double>(field) + (field.name == "eps" ? 1e-3 : 0.05);
    }
    all.push_back(one.as<A>());
  }
  all.push_back(every.as<A>());
  return all;
}

template <class A>
std::vector<OpCase> update_cases() {
  const std::vector<std::vector<Shape>> shapes{{{33, 5}}, {{7}}, {{}}, {{5}, {2, 9}, {0}, {40}}, {{0}}, {{3, 70}}};
  std::vector<OpCase> cases;
  for (const A& attrs : variants<A>()) cases.push_back(case_of(attrs, shapes[cases.size() % shapes.size()]));
  cases.push_back(case_of(A{}, {{3}, {0}, {65}}));
  return cases;
}

template <class A>
std::vector<OpCase> update_rows_cases() {
  const std::vector<std::pair<Shape, std::int64_t>> shapes{{{5, 3}, 4}, {{4, 33}, 9}, {{7}, 20}, {{6, 2, 3}, 2}};
  std::vector<OpCase> cases;
  for (const A& attrs : variants<A>()) {
    const auto& [shape, n] = shapes[cases.size() % shapes.size()];
    cases.push_back(rows_case_of(attrs, shape, n));
  }
  cases.push_back(rows_case_of(A{}, {3, 4}, 0));
  return cases;
}

// About four operations for the weight and for each state.
double flops_of_updates(const CostCall& call) {
  double targets = 0;
  for (const auto& type : call.out) targets += costs::elements(type);
  return 4 * targets;
}
double flops_of_row_updates(const CostCall& call) {
  return 4 * static_cast<double>(call.out.size()) * costs::elements(call.in[call.out.size() + 1]);
}

// Rules that take norms of whole tensors update whole tensors.
template <class A>
ShardRule shard_rule(const ShardCall& call) {
  if constexpr (op::kTakesNorms<A>)
    return rules::shard_replicated(call);
  else
    return op::shard_update(call, op::update_operands(call.attrs.as<A>()));
}

}  // namespace

void register_ops_update(OpRegistry& ops) {
  op::for_update_rules([&]<class A>() {
    ops.add({.name = std::string(A::kName),
             .doc = "One step of an optimizer for any number of tensors: new weights and states.",
             .inputs = {"weights_states_gradients_scalars..."},
             .outputs = {"weights_states"},
             .attrs = &attr_type<A>(),
             .infer = infer_update<A>,
             .shard = shard_rule<A>,
             .cases = update_cases<A>,
             .inplace = 0,
             .cost = {flops_of_updates},
             .precision = Width::wide});
    if constexpr (op::kHasRows<A>) {
      ops.add({.name = std::string(A::kName) + "_rows",
               .doc = "The update of the rows that occur, with the sums of their values as gradients.",
               .inputs = {"weight_states_rows_values_scalars..."},
               .outputs = {"weight_states"},
               .attrs = &attr_type<A>(),
               .infer = infer_update_rows<A>,
               .shard = rules::shard_replicated,
               .cases = update_rows_cases<A>,
               .inplace = 0,
               .cost = {flops_of_row_updates},
               .precision = Width::wide});
    }
  });
}

}  // namespace starling
