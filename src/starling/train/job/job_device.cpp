#include "starling/train/job/job_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/comm/gpu/gpu_exchange.h"
#include "starling/dist/comm/gpu/nccl_comm.h"
#include "starling/tensor/device_memory.h"
#include "starling/train/job/job_error.h"

namespace starling::train {

Device rank_device(const Job& job, int local_rank, int gpus) {
  const std::string& given = job.train.device;
  auto device = parse_device(given);
  if (!device || device->kind == DeviceKind::null)
    refuse_job(job, "train.device",
               fmt::format("[train] expected a device (cpu, cuda), got '{}'{}", given,
                           given == "gpu" ? " (did you mean 'cuda'?)" : ""));
  if (device->kind != DeviceKind::cuda) return *device;
  const bool numbered = given.find(':') != std::string::npos;
  if (!numbered && gpus > 0) device->index = static_cast<decltype(device->index)>(local_rank % gpus);
  if (device->index >= gpus) {
    refuse_job(job, "train.device",
               fmt::format("[train] expected a GPU for '{}', found {} (a build with STARLING_CUDA=ON and a driver are "
                           "needed; starling doctor tells more)",
                           given, gpus));
  }
  return *device;
}

bool trains_on_gpus(const Job& job) {
  const auto device = parse_device(job.train.device);
  return device && device->kind == DeviceKind::cuda;
}

namespace {

dist::DeviceComms connect_nccl(std::shared_ptr<Comm> comm, int device) {
  const auto connect = [device](std::unique_ptr<Comm> control) {
    return dist::make_nccl_comm(dist::nccl_api(device), std::move(control), {.device = device});
  };
  return {std::make_shared<dist::GpuComm>(std::move(comm), connect), {}};
}

}  // namespace

Device rank_device(const Job& job, int local_rank) { return rank_device(job, local_rank, cuda_device_count()); }

dist::DeviceComms connect_gpus(const Job& job, std::shared_ptr<Comm> comm, int local_rank) {
  const int device = rank_device(job, local_rank).index;
  const std::string& backend = job.distribute.backend.name;
  const auto places = dist::gather_gpu_places(*comm, device);
  switch (dist::choose_gpu_exchange(backend, places, dist::has_nccl())) {
    case dist::GpuExchange::nccl: return connect_nccl(std::move(comm), device);
    case dist::GpuExchange::staged:
      return {std::make_shared<dist::GpuComm>(std::move(comm), nullptr),
              fmt::format("distribute.backend is {}", backend)};
    case dist::GpuExchange::ipc: break;
  }
  dist::DeviceComms comms = dist::connect_devices(std::move(comm), dist::make_cuda_reach(device));
  check(backend == "auto" || comms.comm->on_device() != nullptr,
        "[train] expected GPUs that reach each other's memory with distribute.backend: ipc, got: {}", comms.why_not);
  return comms;
}

std::string device_note(const Job& job, const dist::DeviceComms& comms, int ranks_here, int gpus) {
  const bool numbered = job.train.device.find(':') != std::string::npos;
  const int used = numbered ? 1 : std::min(ranks_here, gpus);
  std::string where;
  if (used == ranks_here)
    where = "each rank has a GPU of its own";
  else if (used == 1)
    where = fmt::format("the {} ranks of this host share {}", ranks_here, to_string(rank_device(job, 0, gpus)));
  else
    where = fmt::format("the {} ranks of this host share {} GPUs, each that of its number modulo {}", ranks_here, used,
                        used);
  const Comm* on_device = comms.comm->on_device();
  if (on_device == nullptr) return fmt::format("{}; they exchange through host memory ({})", where, comms.why_not);
  return fmt::format("{}; they exchange in device memory ({})", where, on_device->capabilities().backend);
}

}  // namespace starling::train
