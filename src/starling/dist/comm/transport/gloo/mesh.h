#pragma once

#include <memory>

#include "starling/dist/comm/transport/gloo/wire.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::wire {

// Two connections from this rank to every other one: data, and control, which no amount of data can hold up.
struct Mesh {
  std::shared_ptr<Bell> bell;  // of both
  std::shared_ptr<Context> data;
  std::shared_ptr<Context> control;
};

// Publishes where this rank listens, connects to all others, and makes sure that they are who they should be: each side
// shows the token that the other has put into the store. Throws Error naming the rank that is missing at the deadline.
Mesh meet(Store& store, const CommGroup& group, const GlooOptions& options);

}  // namespace starling::wire
