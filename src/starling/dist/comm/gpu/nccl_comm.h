#pragma once

#include <chrono>
#include <memory>

#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/gpu/nccl_api.h"

namespace starling::dist {

struct NcclOptions {
  int device = 0;                                   // CUDA device index of this rank
  DeviceStream producer = nullptr;                  // stream that produces the buffers given to calls
  std::chrono::milliseconds join_deadline{60'000};  // for all ranks to connect
};

// NCCL backend: one GPU per rank, buffers in its device memory. `control` is a group of the same ranks over any host
// backend; it bootstraps the NCCL communicators, carries the fingerprints to compare, and reports failures. Collective.
//
// A call is ordered behind earlier work on the producer's stream and runs on a stream of the communicator; once wait()
// has returned, any stream may use the buffers. Collectives and messages have a stream and an NCCL communicator each,
// so that a message whose partner is late delays no collective. Messages are batched and started together, at the next
// collective, wait or poll: sends issued before receives cannot block each other. i16 and u16 can be sent but not
// reduced.
//
// Every wait polls NCCL's asynchronous error state; an error or a passed deadline aborts the NCCL communicator, and no
// buffer is touched once the Error has been thrown.
std::unique_ptr<Comm> make_nccl_comm(std::shared_ptr<const NcclApi> api, std::unique_ptr<Comm> control,
                                     const NcclOptions& options = {});

// Real NCCL and CUDA, bound to a device; throws if this build has no NCCL.
std::shared_ptr<const NcclApi> nccl_api(int device);
bool has_nccl();

}  // namespace starling::dist
