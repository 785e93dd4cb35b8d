#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "starling/dist/comm/comm.h"

namespace starling::dist {

// GPU of a rank. Plain data.
struct GpuPlace {
  std::array<char, 64> host{};
  int device = 0;
  friend bool operator==(const GpuPlace&, const GpuPlace&) = default;
};

// Places of all ranks, in their order. Collective.
std::vector<GpuPlace> gather_gpu_places(Comm& comm, int device);

// How ranks exchange what lies on GPUs: by NCCL, by reading each other's memory, or through host memory.
enum class GpuExchange { nccl, ipc, staged };

// The way for the backend that a job names: one of devices is taken as it is, one between processes carries host
// memory; auto is NCCL where this build has it and every rank has a GPU of its own, else to read each other's memory,
// which may turn out to be impossible. Throws Error where NCCL is named and the build has none, or ranks share a GPU.
GpuExchange choose_gpu_exchange(std::string_view backend, std::span<const GpuPlace> places, bool has_nccl);

}  // namespace starling::dist
