#include "starling/dist/comm/backend.h"
#include "starling/dist/comm/gpu/nccl_comm.h"

namespace starling::dist {
namespace {

std::string missing() { return has_nccl() ? "" : "NCCL, when this was built (cmake --preset cuda)"; }

}  // namespace

// Connects GPUs, one of each rank (comm/gpu/nccl_comm.h); what is in host memory goes as with `auto`.
void register_comm_nccl(CommBackends& backends) {
  backends.add({.name = "nccl", .title = "NCCL", .order = 500, .missing = missing});
}

}  // namespace starling::dist
