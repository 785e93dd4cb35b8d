#include <cuda_runtime.h>
#include <nccl.h>

#include <cstring>

#include "starling/base/error.h"
#include "starling/dist/comm/gpu/nccl_comm.h"
#include "starling/dist/comm/gpu/nccl_version.h"

namespace starling::dist {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(static_cast<int>(NcclResult::success) == ncclSuccess &&
              static_cast<int>(NcclResult::invalid_usage) == ncclInvalidUsage &&
              static_cast<int>(NcclResult::in_progress) == ncclInProgress);
static_assert(static_cast<int>(NcclType::i8) == ncclInt8 && static_cast<int>(NcclType::u8) == ncclUint8 &&
              static_cast<int>(NcclType::i32) == ncclInt32 && static_cast<int>(NcclType::u32) == ncclUint32 &&
              static_cast<int>(NcclType::i64) == ncclInt64 && static_cast<int>(NcclType::u64) == ncclUint64 &&
              static_cast<int>(NcclType::f16) == ncclFloat16 && static_cast<int>(NcclType::f32) == ncclFloat32 &&
              static_cast<int>(NcclType::f64) == ncclFloat64 && static_cast<int>(NcclType::bf16) == ncclBfloat16);
static_assert(static_cast<int>(NcclReduction::sum) == ncclSum && static_cast<int>(NcclReduction::product) == ncclProd &&
              static_cast<int>(NcclReduction::max) == ncclMax && static_cast<int>(NcclReduction::min) == ncclMin &&
              static_cast<int>(NcclReduction::mean) == ncclAvg);
static_assert(kNcclNoColor == NCCL_SPLIT_NOCOLOR);

NcclResult result(ncclResult_t r) { return static_cast<NcclResult>(r); }
ncclComm_t comm(NcclHandle handle) { return static_cast<ncclComm_t>(handle); }
cudaStream_t stream(DeviceStream handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event(DeviceEvent handle) { return static_cast<cudaEvent_t>(handle); }
ncclDataType_t type(NcclType t) { return static_cast<ncclDataType_t>(t); }
ncclRedOp_t op(NcclReduction r) { return static_cast<ncclRedOp_t>(r); }

void check_runtime(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  fail("[nccl] expected {} to succeed, got {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

void bind_communicators(NcclApi& api, int device) {
  api.get_unique_id = [](NcclId& id) {
    ncclUniqueId made;
    const ncclResult_t r = ncclGetUniqueId(&made);
    std::memcpy(id.bytes.data(), made.internal, sizeof(made));
    return result(r);
  };
  api.init_rank = [device](NcclHandle& handle, int world, const NcclId& id, int rank) {
    check_runtime(cudaSetDevice(device), "cudaSetDevice");
    ncclUniqueId shared;
    std::memcpy(shared.internal, id.bytes.data(), sizeof(shared));
    ncclConfig_t config = non_blocking();
    ncclComm_t made = nullptr;
    const ncclResult_t r = ncclCommInitRankConfig(&made, world, shared, rank, &config);
    handle = made;
    return result(r);
  };
  api.split = [](NcclHandle handle, int color, int key, NcclHandle& part) {
    ncclConfig_t config = non_blocking();
    // NCCL writes the handle when the split completes, possibly after this returns, so it must be the caller's
    // variable.
    static_assert(sizeof(ncclComm_t) == sizeof(NcclHandle));
    return result(ncclCommSplit(comm(handle), color, key, reinterpret_cast<ncclComm_t*>(&part), &config));
  };
  api.async_error = [](NcclHandle handle, NcclResult& state) {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t r = ncclCommGetAsyncError(comm(handle), &now);
    state = result(now);
    return result(r);
  };
  api.finalize = [](NcclHandle handle) { return result(ncclCommFinalize(comm(handle))); };
  api.destroy = [](NcclHandle handle) { return result(ncclCommDestroy(comm(handle))); };
  api.abort = [](NcclHandle handle) { return result(ncclCommAbort(comm(handle))); };
  api.error_text = [](NcclResult r, NcclHandle handle) {
    std::string text = ncclGetErrorString(static_cast<ncclResult_t>(r));
    if (const char* last = ncclGetLastError(comm(handle)); last && *last) text += fmt::format(" ({})", last);
    return text;
  };
}

void bind_operations(NcclApi& api) {
  api.group_start = [] { return result(ncclGroupStart()); };
  api.group_end = [] { return result(ncclGroupEnd()); };
  api.all_reduce = [](const void* send, void* recv, std::size_t count, NcclType t, NcclReduction r, NcclHandle c,
                      DeviceStream s) {
    return result(ncclAllReduce(send, recv, count, type(t), op(r), comm(c), stream(s)));
  };
  api.broadcast = [](const void* send, void* recv, std::size_t count, NcclType t, int root, NcclHandle c,
                     DeviceStream s) {
    return result(ncclBroadcast(send, recv, count, type(t), root, comm(c), stream(s)));
  };
  api.reduce = [](const void* send, void* recv, std::size_t count, NcclType t, NcclReduction r, int root, NcclHandle c,
                  DeviceStream s) {
    return result(ncclReduce(send, recv, count, type(t), op(r), root, comm(c), stream(s)));
  };
  api.reduce_scatter = [](const void* send, void* recv, std::size_t count, NcclType t, NcclReduction r, NcclHandle c,
                          DeviceStream s) {
    return result(ncclReduceScatter(send, recv, count, type(t), op(r), comm(c), stream(s)));
  };
  api.all_gather = [](const void* send, void* recv, std::size_t count, NcclType t, NcclHandle c, DeviceStream s) {
    return result(ncclAllGather(send, recv, count, type(t), comm(c), stream(s)));
  };
  api.send = [](const void* data, std::size_t count, NcclType t, int peer, NcclHandle c, DeviceStream s) {
    return result(ncclSend(data, count, type(t), peer, comm(c), stream(s)));
  };
  api.recv = [](void* data, std::size_t count, NcclType t, int peer, NcclHandle c, DeviceStream s) {
    return result(ncclRecv(data, count, type(t), peer, comm(c), stream(s)));
  };
}

// Called from any thread, so each call sets the device.
void bind_device(NcclApi& api, int device) {
  const auto here = [device] { check_runtime(cudaSetDevice(device), "cudaSetDevice"); };
  api.make_stream = [here]() -> DeviceStream {
    here();
    cudaStream_t made = nullptr;
    check_runtime(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
    return made;
  };
  api.free_stream = [](DeviceStream s) { (void)cudaStreamDestroy(stream(s)); };
  api.make_event = [here]() -> DeviceEvent {
    here();
    cudaEvent_t made = nullptr;
    check_runtime(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreate");
    return made;
  };
  api.free_event = [](DeviceEvent e) { (void)cudaEventDestroy(event(e)); };
  api.record = [here](DeviceEvent e, DeviceStream s) {
    here();
    check_runtime(cudaEventRecord(event(e), stream(s)), "cudaEventRecord");
  };
  api.passed = [](DeviceEvent e) {
    const cudaError_t status = cudaEventQuery(event(e));
    if (status == cudaErrorNotReady) return false;
    check_runtime(status, "cudaEventQuery");
    return true;
  };
  api.stream_wait = [here](DeviceStream s, DeviceEvent e) {
    here();
    check_runtime(cudaStreamWaitEvent(stream(s), event(e), 0), "cudaStreamWaitEvent");
  };
  api.allocate = [here](std::size_t bytes) {
    here();
    void* data = nullptr;
    check_runtime(cudaMalloc(&data, bytes), "cudaMalloc");
    return data;
  };
  api.free = [](void* data) { (void)cudaFree(data); };
}

}  // namespace

std::shared_ptr<const NcclApi> nccl_api(int device) {
  int devices = 0;
  check_runtime(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  check(device >= 0 && device < devices, "[nccl] expected a device in [0, {}), got {}", devices, device);
  auto api = std::make_shared<NcclApi>();
  bind_communicators(*api, device);
  bind_operations(*api);
  bind_device(*api, device);
  return api;
}

bool has_nccl() { return true; }

int nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

}  // namespace starling::dist
