#include "starling/ops/api/random.h"

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/random.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/random_checks.h"
#include "starling/ops/def/random_key.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/loop_scope.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/tensor/interpreter.h"

namespace starling {

Generator::Generator(std::int64_t seed) : key_(std::make_shared<op::RandomKey>()) {
  // The calls so far stay counted: the one that makes a thread's generator may have its number already.
  key_->set(seed, 0);
}

const Tensor& Generator::key() const { return key_->tensor(); }

void Generator::seed(std::int64_t seed) {
  key_->set(seed, 0);
  SiteCounts::reset();
}

void Generator::next_step() {
  const NoGrad no_grad;
  assign(key(), add(key(), key_->one_step()));
  SiteCounts::reset();
}

void Generator::to(Device device) {
  device_ = device;
  key_->to(device);
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

namespace {

bool tracing() { return &current_interpreter() != &eager_interpreter(); }

}  // namespace

Tensor op::random_key() { return op::random_key(default_generator().device()); }

Tensor op::random_key(Device operand) {
  Tensor key = default_generator().key();
  if (!tracing() && key.device() != operand) key = to(key, operand);
  return in_loop() ? key_of_trip(key) : key;
}

void manual_seed(std::int64_t seed) { default_generator().seed(seed); }

Tensor uniform(const Shape& shape, const UniformOptions& o) {
  static const OpDef& op = find_op("uniform");
  return apply1(op, {op::random_key()}, op::RandomAttrs{shape, {}, {}, next_random_site(), o.low, o.high, o.dtype});
}

Tensor normal(const Shape& shape, const NormalOptions& o) {
  static const OpDef& op = find_op("normal");
  return apply1(op, {op::random_key()}, op::RandomAttrs{shape, {}, {}, next_random_site(), o.mean, o.stddev, o.dtype});
}

Tensor op::own_key(Device operand) {
  Tensor key = op::random_key(operand);
  if (in_loop() || tracing() || key.device() != default_generator().key().device()) return key;  // fresh or traced
  Tensor copy = empty({2}, DType::i64, key.device());
  copy_into(copy, key);
  return copy;
}

Tensor dropout(const Tensor& x, double p) {
  static const OpDef& op = find_op("dropout");
  check(p >= 0 && p < 1, "[dropout] expected a probability in [0, 1), got {}", p);
  return apply1(op, {x, op::own_key(x.device())}, op::DropoutAttrs{1 - p, {}, {}, next_random_site()});
}

namespace {

Types infer_random(const InferCall& call) {
  check_key(call.in[0], call);
  const auto& a = call.attrs.as<op::RandomAttrs>();
  check_size(a.shape, size_of(a.dtype), call.op.name.c_str());
  check_piece(a.shape, a.global, a.offset, call);
  check(is_float(a.dtype), "[{}] expected a float dtype, got {}", call.op.name, name(a.dtype));
  return {TensorType{a.dtype, a.shape}};
}

Types infer_uniform(const InferCall& call) {
  const auto& a = call.attrs.as<op::RandomAttrs>();
  check(a.a <= a.b && std::isfinite(a.b - a.a), "[uniform] expected finite bounds with low ≤ high, got {} and {}", a.a,
        a.b);
  return infer_random(call);
}

Types infer_normal(const InferCall& call) {
  const auto& a = call.attrs.as<op::RandomAttrs>();
  check(std::isfinite(a.a) && a.b >= 0 && std::isfinite(a.b),
        "[normal] expected a finite mean and a finite stddev of at least 0, got {} and {}", a.a, a.b);
  return infer_random(call);
}

Types infer_dropout(const InferCall& call) {
  rules::expect_float(call);
  check_key(call.in[1], call);
  const auto& a = call.attrs.as<op::DropoutAttrs>();
  check_piece(call.in[0].shape, a.global, a.offset, call);
  const double keep = a.keep;
  check(keep > 0 && keep <= 1, "[dropout] expected to keep a share in (0, 1], got {}", keep);
  return {call.in[0]};
}

ShardRule shard_dropout(const ShardCall& call) {
  if (!call.layouts[0].is_split()) return rules::shard_replicated(call);
  return {{call.layouts[0], Layout::replicate()}, {call.layouts[0]}};
}

const CaseInput& kKey = kSampleKey;

std::vector<OpCase> random_cases() {
  return {{{kKey}, op::RandomAttrs{{4, 5}, {}, {}, 3, 0, 1, DType::f64}},
          {{kKey}, op::RandomAttrs{{2, 5}, {7, 5}, {3, 0}, 3, -1, 2, DType::f64}},
          {{kKey}, op::RandomAttrs{{4, 2}, {4, 5}, {0, 2}, 9, 0, 1, DType::f64}},
          {{kKey}, op::RandomAttrs{{0}, {}, {}, 1, 0, 1, DType::f64}}};
}

OpDef random_op(std::string name, std::string doc, Types (*infer)(const InferCall&)) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"key"},
          .attrs = &attr_type<op::RandomAttrs>(),
          .infer = infer,
          .shard = rules::shard_replicated,
          .cases = random_cases,
          .random = true,
          .cost = costs::each(1),
          .precision = Width::wide};
}

}  // namespace

void register_ops_random(OpRegistry& ops) {
  ops.add(random_op("uniform", "Random numbers in [a, b).", infer_uniform));
  ops.add(random_op("normal", "Random numbers of mean a and standard deviation b.", infer_normal));
  ops.add({.name = "dropout",
           .doc = "Keeps each element with probability keep, scaled by 1 / keep; the rest are 0.",
           .inputs = {"x", "key"},
           .attrs = &attr_type<op::DropoutAttrs>(),
           .infer = infer_dropout,
           // Linear in x with the same mask, so the op is its own gradient.
           .gradient =
               [](const GradCall& c) {
                 return TensorList{apply1(c.op, {c.grads[0], c.in[1]}, c.attrs), Tensor()};
               },
           .shard = shard_dropout,
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {4, 5}}, kKey}, op::DropoutAttrs{0.7, {}, {}, 5}},
                                            {{{.shape = {33}}, kKey}, op::DropoutAttrs{0.5, {}, {}, 6}},
                                            {{{.shape = {2, 3}}, kKey}, op::DropoutAttrs{0.5, {8, 3}, {4, 0}, 6}},
                                            {{{.shape = {0, 3}}, kKey}, op::DropoutAttrs{}},
                                            {{{.shape = {}}, kKey}, op::DropoutAttrs{0.9, {}, {}, 1}},
                                            {{{.shape = {4, 2}}, kKey}, op::DropoutAttrs{0.3, {4, 5}, {0, 2}, 6}},
                                            {{{.shape = {2, 3, 5}}, kKey}, op::DropoutAttrs{1, {}, {}, 2}},
                                            {{{.shape = {1, 100}}, kKey}, op::DropoutAttrs{0.1, {}, {}, 8}}};
               },
           .saves = kSavesInputs,
           .random = true,
           .inplace = 0,
           .cost = costs::each(2),
           .precision = Width::as_given});
}

}  // namespace starling
