#include "starling/ops/api/messages.h"

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/dist/comm/comm.h"
#include "starling/dist/comm/staging/staged_plan.h"

// Kernels of messages between two ranks (ops/families/messages.cpp). Without a communicator there is no peer: outputs
// are zeros.
namespace starling::dist {
namespace {

int checked_peer(const char* op, const Comm& comm, std::int64_t peer) {
  if (peer < comm.size() && peer != comm.rank()) return static_cast<int>(peer);
  fail("[{}] expected another rank of {}, got {} on rank {}", op, comm.size(), peer, comm.rank());
}

std::unique_ptr<kernels::Plan> plan_send(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::SendToAttrs>();
  const DType dtype = request.in[0].dtype;
  const std::int64_t n = request.in[0].shape.numel();
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    memory.enqueue_zeros(launch.out[0], size_of(dtype));
    Comm* comm = launch.context.comm;
    if (!comm) return;
    comm->send(launch.in[0], n, dtype, checked_peer("send_to", *comm, a.to), {.name = a.name.str()}).wait();
  });
}

std::unique_ptr<kernels::Plan> plan_recv(const kernels::PlanRequest& request, const DeviceMemory& memory) {
  const auto a = request.attrs.as<op::RecvFromAttrs>();
  const DType dtype = request.out[0].dtype;
  const std::int64_t n = request.out[0].shape.numel();
  return kernels::make_plan([=, &memory](const kernels::Launch& launch) {
    Comm* comm = launch.context.comm;
    if (!comm) return memory.enqueue_zeros(launch.out[0], static_cast<std::size_t>(n) * size_of(dtype));
    comm->recv(launch.out[0], n, dtype, checked_peer("recv_from", *comm, a.from), {.name = a.name.str()}).wait();
  });
}

}  // namespace

void register_dist_messages(kernels::KernelTable& table) {
  add_comm_kernel(table, "send_to", plan_send);
  add_comm_kernel(table, "recv_from", plan_recv);
}

}  // namespace starling::dist
