#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Messages between two ranks as ops. Of one ordered pair of ranks they match in the order in which they are applied,
// and both sides name the same shape and dtype.
//
// Each is the gradient of the other: what rank r sent to s comes back as the gradient that s found for it. So that
// both stand in the graph, a send_to has a result, the receipt, and a recv_from has an operand, the ticket: zeros
// without a dimension, of the message's dtype. Where the message is to be differentiated, the receipt must reach its
// rank's loss (add it, it is 0) and the ticket require a gradient, or follow from something that does (a receipt, which
// also says that the one comes after the other).
//
//   rank 0:  loss = add(own, send_to(x, {.to = 1}));
//   rank 1:  y = recv_from(ticket, {.from = 0, .shape = {8, 3}}); loss = f(y);
//
// All losses count, as for collectives (ops/comm.h): after backward() on both, x.grad() on rank 0 holds dL/dx through
// rank 1. Where one rank differentiates, its partner must too, in the opposite order of the messages.

struct SendToAttrs {
  std::int64_t to = 0;
  Symbol name{};  // for diagnostics: what is being sent
  static AttrFields fields() { return {field("to", &SendToAttrs::to), field("name", &SendToAttrs::name)}; }
};

struct RecvFromAttrs {
  std::int64_t from = 0;
  Shape shape{};
  Symbol name{};
  static AttrFields fields() {
    return {field("from", &RecvFromAttrs::from), field("shape", &RecvFromAttrs::shape),
            field("name", &RecvFromAttrs::name)};
  }
};

Tensor send_to(const Tensor& x, const SendToAttrs& attrs);           // the receipt
Tensor recv_from(const Tensor& ticket, const RecvFromAttrs& attrs);  // what came

}  // namespace starling
