#include "starling/ops/def/attrs/transfer.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor delay(const Tensor& x, double milliseconds) {
  return apply1(named_op<"delay">(), {x}, op::DelayAttrs{milliseconds});
}

namespace {

void expect_device(const InferCall& call, Symbol device) {
  check(parse_device(device.str()).has_value(), "[{}] expected a device, got '{}'", call.op.name, device.str());
}

void expect_key(const InferCall& call, Symbol key) {
  check(!key.empty(), "[{}] expected a key, got none", call.op.name);
}

Types infer_send(const InferCall& call) {
  const auto& a = call.attrs.as<op::SendAttrs>();
  expect_key(call, a.key);
  expect_device(call, a.to);
  return {};
}

Types infer_recv(const InferCall& call) {
  const auto& a = call.attrs.as<op::RecvAttrs>();
  expect_key(call, a.key);
  expect_device(call, a.from);
  for (auto size : a.shape) check(size >= 0, "[recv] expected sizes of at least 0, got {}", to_string(a.shape));
  return {TensorType{a.dtype, a.shape}};
}

Types infer_delay(const InferCall& call) {
  constexpr double kMost = 60'000;
  const double time = call.attrs.as<op::DelayAttrs>().milliseconds;
  check(time >= 0 && time <= kMost, "[delay] expected 0 to {} milliseconds, got {}", kMost, time);
  return {call.in[0]};
}

std::vector<OpCase> delay_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{3, 4}, {}, {0, 3}, {33}, {2, 1, 5}, {1}, {7, 3}, {2, 2, 2, 2}})
    cases.push_back({{{.shape = shape}}, op::DelayAttrs{0.001}});
  return cases;
}

}  // namespace

void register_ops_transfer(OpRegistry& ops) {
  ops.add({.name = "send",
           .doc = "Hands a tensor, or the news that it has been reached, to another device.",
           .inputs = {"x?"},
           .outputs = {},
           .attrs = &attr_type<op::SendAttrs>(),
           .infer = infer_send,
           .stateful = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "recv",
           .doc = "A copy of what another device has sent.",
           .inputs = {},
           .attrs = &attr_type<op::RecvAttrs>(),
           .infer = infer_recv,
           .stateful = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "release",
           .doc = "Ends the life of a tensor that was sent: its receivers have copies.",
           .inputs = {"x"},
           .outputs = {},
           .infer = [](const InferCall&) { return Types{}; },
           .stateful = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "delay",
           .doc = "The same tensor after some milliseconds of sleep.",
           .inputs = {"x"},
           .attrs = &attr_type<op::DelayAttrs>(),
           .infer = infer_delay,
           .gradient = [](const GradCall& c) { return TensorList{c.grads[0]}; },
           .shard = rules::shard_linear_elementwise,
           .cases = delay_cases,
           .saves = kSavesNothing,
           .plain = true,
           .inplace = 0,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
