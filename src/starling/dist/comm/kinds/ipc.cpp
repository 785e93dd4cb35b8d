#include "starling/dist/comm/backend.h"
#include "starling/tensor/device_memory.h"

namespace starling::dist {
namespace {

std::string missing() { return built_with_cuda() ? "" : "CUDA, when this was built (cmake --preset cuda)"; }

}  // namespace

// Connects the memory of GPUs (comm/gpu/ipc_comm.h); what is in host memory goes as with `auto`.
void register_comm_ipc(CommBackends& backends) {
  backends.add({.name = "ipc", .title = "CUDA IPC", .order = 400, .missing = missing});
}

}  // namespace starling::dist
