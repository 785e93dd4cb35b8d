#pragma once

#include <memory>

#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/gpu/device_reach.h"

namespace starling::dist {

// Communicator of ranks that reach each other's device memory: processes of one host through CUDA IPC, threads by
// address. Ranks meet over `control`, a group of the same ranks over host memory, which tells where buffers lie,
// compares calls, and finds who is missing; then each rank's GPU reads what it needs from the others' memory, and
// nothing passes through the host. No rank writes into another's memory. Reductions add in rank order, with the bits of
// thread ranks. Collective.
//
// A call first waits for the work that the device was given before; operations move on while this rank waits or polls.
// sum_shards is not offered.
std::unique_ptr<Comm> make_ipc_comm(std::shared_ptr<DeviceReach> reach, std::unique_ptr<Comm> control);

}  // namespace starling::dist
