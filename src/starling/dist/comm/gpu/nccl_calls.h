#pragma once

#include "starling/dist/comm/call.h"
#include "starling/dist/comm/gpu/nccl_api.h"
#include "starling/dist/comm/journal.h"

namespace starling::dist {

// Target of an NCCL call: this rank in its communicator, and the stream.
struct NcclTarget {
  int rank = 0;
  int world = 1;
  NcclHandle comm = nullptr;
  DeviceStream stream = nullptr;
  void* word = nullptr;  // 4 bytes on the device, for barriers
};

// Throws Error if NCCL cannot reduce the call's dtype.
void check_type(const Call& call);

// Submits the NCCL operations that make up the call, inside a group opened by the caller. Returns the first failure.
// Empty transfers are skipped. Adds to `handed` what each call of the API was handed, since NCCL does not tell what it
// moves: the bytes that it is given to read and to write on behalf of other ranks, calls as steps, and calls that give
// as messages. Nothing is assumed of its algorithms. Barriers and a world of one hand over nothing.
NcclResult submit_nccl(const NcclApi& api, const Call& call, const NcclTarget& target, Traffic& handed);

}  // namespace starling::dist
