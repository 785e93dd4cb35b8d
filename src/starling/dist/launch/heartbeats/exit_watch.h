#pragma once

#include <memory>

#include "starling/dist/launch/heartbeats/heartbeat_sender.h"

namespace starling::dist {

// Keeps this process supervised beyond its world, until it ends: its starter still waits for that, and so do the other
// ranks where MPI has them end together. `ties` is what the heartbeats need (the rendezvous of rank 0, say). Returns
// the sender for the World: releasing it means that the rank has left in good order. One world at a time: a sender kept
// before is let go.
std::shared_ptr<HeartbeatSender> watch_until_exit(std::shared_ptr<HeartbeatSender> heartbeats,
                                                  std::shared_ptr<void> ties);

// Called when a process only waits for the others to end, in ways that cannot be interrupted: from now on a finding of
// the sender, also one made before, is written to stderr and ends the process with code 1. Does nothing without a
// watch.
void wait_under_watch();

}  // namespace starling::dist
