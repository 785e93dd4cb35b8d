#include "starling/dist/comm/gpu/gpu_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "starling/base/error.h"
#include "starling/dist/launch/hosts.h"

namespace starling::dist {
namespace {

// The first two ranks with one GPU; -1 twice: every rank has its own.
std::pair<int, int> sharing(std::span<const GpuPlace> places) {
  for (std::size_t b = 1; b < places.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (places[a] == places[b]) return {static_cast<int>(a), static_cast<int>(b)};
    }
  }
  return {-1, -1};
}

}  // namespace

std::vector<GpuPlace> gather_gpu_places(Comm& comm, int device) {
  GpuPlace own{.device = device};
  const std::string host = host_name();
  std::memcpy(own.host.data(), host.data(), std::min(host.size(), own.host.size() - 1));
  std::vector<GpuPlace> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&own, all.data(), sizeof(GpuPlace), DType::u8, {.name = "GPUs"}).wait();
  return all;
}

GpuExchange choose_gpu_exchange(std::string_view backend, std::span<const GpuPlace> places, bool has_nccl) {
  const auto [first, second] = sharing(places);
  if (backend == "nccl") {
    check(has_nccl,
          "[nccl] expected a build with NCCL for distribute.backend: nccl, got one without (configure with "
          "-DSTARLING_CUDA=ON where NCCL is installed)");
    if (first >= 0) {
      const GpuPlace& place = places[static_cast<std::size_t>(first)];
      fail(
          "[nccl] expected a GPU of its own for every rank with distribute.backend: nccl, got ranks {} and {} on "
          "cuda:{} of {} (auto and ipc let ranks share one)",
          first, second, place.device, place.host.data());
    }
    return GpuExchange::nccl;
  }
  if (backend == "ipc") return GpuExchange::ipc;
  if (backend != "auto") return GpuExchange::staged;
  return has_nccl && first < 0 ? GpuExchange::nccl : GpuExchange::ipc;
}

}  // namespace starling::dist
