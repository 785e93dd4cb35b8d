// All-reduces of ranks that share a GPU: `starling launch -n 2 -- bench_gpu_ranks`, or `bench_gpu_ranks 2` for threads,
// prints a JSON line for each size and way, from rank 0: ipc, in device memory; staged, through host memory; beside
// them copy, what the memory takes to copy as many bytes within the device, and nccl_one_rank, NCCL's all-reduce of a
// world of one.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/gpu/device_comms.h"
#include "starling/dist/comm/gpu/nccl_comm.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/launch/world.h"
#include "starling/tensor/allocator.h"
#include "starling/tensor/device_memory.h"
#include "starling/tensor/tensor.h"

namespace {

using namespace starling;
using Clock = std::chrono::steady_clock;
using Comms = std::vector<std::shared_ptr<Comm>>;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Median time of a call, in microseconds; all ranks begin together, and make as many.
double timed(Comm& comm, const std::function<void()>& call, double budget) {
  call();
  const auto begin = Clock::now();
  call();
  double once = seconds_since(begin), longest = 0;
  comm.all_reduce(&once, &longest, 1, DType::f64, ReduceOp::max).wait();
  const int rounds = std::clamp(static_cast<int>(budget / std::max(longest, 1e-6)), 3, 200);
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    comm.barrier().wait();
    const auto start = Clock::now();
    call();
    times.push_back(1e6 * seconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

void run(const std::shared_ptr<Comm>& comm, std::string_view kind) {
  Comm& host = *comm;
  const int rank = host.rank();
  constexpr Device kGpu{DeviceKind::cuda, 0};
  const auto reach = dist::make_cuda_reach(0);
  const dist::DeviceComms devices = dist::connect_devices(comm, reach);
  Comm* device = devices.comm->on_device();
  if (device == nullptr && rank == 0) fmt::print(stderr, "no exchange in device memory: {}\n", devices.why_not);
  const DeviceMemory& memory = device_memory(DeviceKind::cuda);
  std::unique_ptr<Comm> alone;
  if (rank == 0 && dist::has_nccl()) {
    try {
      alone = dist::make_nccl_comm(dist::nccl_api(0), std::move(make_thread_comms(1).front()));
    } catch (const Error& error) {
      fmt::print(stderr, "no NCCL: {}\n", error.what());
    }
  }
  const auto tell = [&](std::string_view way, std::int64_t bytes, double us) {
    if (rank != 0) return;
    fmt::print(
        "{{\"case\": \"gpu_all_reduce\", \"kind\": \"{}\", \"way\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"us\": "
        "{:.2f}}}\n",
        kind, way, host.size(), bytes, us);
    std::fflush(stdout);
  };
  for (std::int64_t bytes = 4; bytes <= std::int64_t{1} << 30; bytes *= bytes < 1024 ? 16 : 4) {
    const std::int64_t count = bytes / 4;
    const Tensor data = empty({count}, DType::f32, kGpu), other = empty({count}, DType::f32, kGpu);
    const std::vector<float> ones(static_cast<std::size_t>(count), 1);
    memory.from_host(data.raw(), ones.data(), static_cast<std::size_t>(bytes));
    const double budget = 0.15;
    if (device != nullptr) {
      tell("ipc", bytes,
           timed(
               host, [&] { device->all_reduce(data.raw(), data.raw(), count, DType::f32, ReduceOp::mean).wait(); },
               budget));
      float last = 0;
      memory.to_host(&last, static_cast<const float*>(data.raw()) + count - 1, sizeof(float));
      check(last == 1, "[bench] expected a mean of 1, got {}", last);
    }
    const auto arena = host.arena();  // of processes; threads need none
    Allocator& from = arena ? *arena : allocator(kCpu);
    void* staging = from.allocate(static_cast<std::size_t>(bytes));
    tell("staged", bytes,
         timed(
             host,
             [&] {
               memory.to_host(staging, data.raw(), static_cast<std::size_t>(bytes));
               host.all_reduce(staging, staging, count, DType::f32, ReduceOp::mean).wait();
               memory.from_host(data.raw(), staging, static_cast<std::size_t>(bytes));
             },
             budget));
    from.deallocate(staging, static_cast<std::size_t>(bytes));
    // The others wait meanwhile.
    if (rank == 0) {
      const auto comms = make_thread_comms(1);
      tell("copy", bytes,
           timed(
               *comms.front(), [&] { memory.within(other.raw(), data.raw(), static_cast<std::size_t>(bytes)); },
               budget));
      if (alone) {
        tell("nccl_one_rank", bytes,
             timed(
                 *comms.front(),
                 [&] { alone->all_reduce(data.raw(), other.raw(), count, DType::f32, ReduceOp::sum).wait(); }, budget));
      }
    }
    host.barrier().wait();
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count > 1) {
      Comms comms;
      for (auto& comm : make_thread_comms(std::atoi(arguments[1]))) comms.emplace_back(std::move(comm));
      std::vector<std::thread> threads;
      for (const auto& comm : comms) threads.emplace_back([&comm] { run(comm, "threads"); });
      for (auto& thread : threads) thread.join();
    } else {
      run(join_world().comm, "processes");
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
