#pragma once

#include <memory>

#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/nccl_api.h"

namespace starling {

struct NcclOptions {
  int device = 0;                   // of this rank, by CUDA's number
  DeviceStream producer = nullptr;  // the stream whose work makes the buffers that are given to calls
};

// GPUs that talk through NCCL: one rank each, buffers in its device's memory. `control` is a group of the same ranks
// over any host backend; it brings the ranks together, carries the fingerprints that are compared, and tells them of
// failures. Collective.
//
// A call is ordered behind the work given to the producer's stream before it, and runs on a stream of the communicator;
// once wait() has returned, any stream may use the buffers. Collectives and messages have a stream and an NCCL
// communicator each, so that a message whose partner is late holds up no collective. Messages are started together,
// when the next collective is called or anything is waited for or polled: sends that come before receives cannot block
// each other. i16 and u16 travel but are not reduced.
//
// Every wait polls NCCL's asynchronous error state; an error or a passed deadline aborts the NCCL communicator, and no
// buffer is touched once the Error has been thrown.
std::unique_ptr<Comm> make_nccl_comm(std::shared_ptr<const NcclApi> api, std::unique_ptr<Comm> control,
                                     const NcclOptions& options = {});

// The real thing, bound to a device; throws where this build has no NCCL.
std::shared_ptr<const NcclApi> nccl_api(int device);
bool has_nccl();

}  // namespace starling
