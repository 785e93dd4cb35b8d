#include "starling/ops/api/messages.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/comm_world.h"

namespace starling {

Tensor send_to(const Tensor& x, const op::SendToAttrs& attrs) {
  find_group(current_world(), attrs.group, "send_to");
  return apply1(named_op<"send_to">(), {x}, attrs);
}
Tensor recv_from(const Tensor& ticket, const op::RecvFromAttrs& attrs) {
  find_group(current_world(), attrs.group, "recv_from");
  return apply1(named_op<"recv_from">(), {ticket}, attrs);
}

namespace {

constexpr std::int64_t kMostRanks = 1 << 16;

void check_peer(const InferCall& call, std::int64_t peer) {
  check(peer >= 0 && peer < kMostRanks, "[{}] expected a rank in [0, {}), got {}", call.op.name, kMostRanks, peer);
}

Types infer_send(const InferCall& call) {
  check_peer(call, call.attrs.as<op::SendToAttrs>().to);
  return Types{{call.in[0].dtype, {}}};
}

Types infer_recv(const InferCall& call) {
  const auto& a = call.attrs.as<op::RecvFromAttrs>();
  check_peer(call, a.from);
  check(call.in[0].shape.rank() == 0, "[recv_from] expected a ticket without dimensions, got {}",
        to_string(call.in[0]));
  for (const std::int64_t size : a.shape) check(size >= 0, "[recv_from] expected sizes of at least 0, got {}", size);
  return Types{{call.in[0].dtype, a.shape}};
}

// The receipt's gradient is the ticket of the returning message.
TensorList grad_send(const GradCall& c) {
  const auto& a = c.attrs.as<op::SendToAttrs>();
  return {recv_from(c.grads[0], {.from = a.to, .shape = c.in[0].shape(), .name = a.name, .group = a.group})};
}

TensorList grad_recv(const GradCall& c) {
  const auto& a = c.attrs.as<op::RecvFromAttrs>();
  return {send_to(c.grads[0], {.to = a.from, .name = a.name, .group = a.group})};
}

}  // namespace

// No sample calls: a single rank has no partner. tests/dist/collective_gradients.h tests these ops across ranks.
void register_ops_messages(OpRegistry& ops) {
  ops.add({.name = "send_to",
           .doc = "Sends x to another rank; a zero that says so.",
           .inputs = {"x"},
           .outputs = {"receipt"},
           .attrs = &attr_type<op::SendToAttrs>(),
           .infer = infer_send,
           .gradient = grad_send,
           .saves = kSavesNothing,
           .stateful = true,
           .comm = true,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "recv_from",
           .doc = "What another rank sends.",
           .inputs = {"ticket"},
           .attrs = &attr_type<op::RecvFromAttrs>(),
           .infer = infer_recv,
           .gradient = grad_recv,
           .saves = kSavesNothing,
           .stateful = true,
           .comm = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
