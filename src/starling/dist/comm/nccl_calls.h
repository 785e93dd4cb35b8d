#pragma once

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/nccl_api.h"

namespace starling {

// Where a call is given to NCCL: this rank in its communicator, and the stream.
struct NcclPlace {
  int rank = 0;
  int world = 1;
  NcclHandle comm = nullptr;
  DeviceStream stream = nullptr;
  void* word = nullptr;  // 4 bytes on the device, for barriers
};

// Throws Error where NCCL has no such reduction of the call's dtype.
void check_type(const Call& call);

// Gives NCCL the operations that the call is made of; the caller has opened a group. The first failure is returned.
// What has no elements is not given at all.
NcclResult submit_nccl(const NcclApi& api, const Call& call, const NcclPlace& place);

}  // namespace starling
