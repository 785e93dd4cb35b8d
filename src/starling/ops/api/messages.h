#pragma once

#include "starling/ops/def/attrs/messages.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Point-to-point messages between ranks as ops. Messages of one ordered pair of ranks match in the order in which they
// are applied; both sides name the same shape and dtype, and the same group if ranks count within one.
//
// Sending and receiving are gradients of each other: the gradient of x sent from rank r to s is sent back from s to r.
// To connect both to the graph, send_to returns a receipt and recv_from takes a ticket: scalar zeros of the message's
// dtype. To differentiate a message, the receipt must reach its rank's loss (add it, it is 0), and the ticket must
// require a gradient or depend on something that does (such as a receipt, which also orders the two messages).
//
//   rank 0:  loss = add(own, send_to(x, {.to = 1}));
//   rank 1:  y = recv_from(ticket, {.from = 0, .shape = {8, 3}}); loss = f(y);
//
// All losses count, as for collectives (ops/api/comm.h): after backward() on both, x.grad() on rank 0 holds dL/dx
// through rank 1. If one rank differentiates, its partner must too, with messages in the opposite order.

Tensor send_to(const Tensor& x, const op::SendToAttrs& attrs);           // returns the receipt
Tensor recv_from(const Tensor& ticket, const op::RecvFromAttrs& attrs);  // returns the message

}  // namespace starling
