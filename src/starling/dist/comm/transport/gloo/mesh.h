#pragma once

#include <memory>

#include "starling/dist/comm/transport/gloo/wire.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::dist::wire {

// Two connections from this rank to every other one: data, and control, which data traffic cannot delay.
struct Mesh {
  std::shared_ptr<Notifier> notifier;  // notifier of both
  std::shared_ptr<Context> data;
  std::shared_ptr<Context> control;
};

// Publishes this rank's address, and connects to all others (PeerSockets). Strangers that connect meanwhile are dropped
// and told on stderr. Throws Error naming the rank that is missing at the deadline.
Mesh meet(Store& store, const CommGroup& group, const GlooOptions& options);

}  // namespace starling::dist::wire
