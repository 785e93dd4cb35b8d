// Ranks that are threads of one process: all-reduce of two of them over the backend `threads`, and over `shared` with
// buffers in arenas and in plain memory. Rounds of the three alternate; printed are medians in microseconds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/tensor/allocator.h"

namespace {

using namespace starling;
using Comms = std::vector<std::unique_ptr<Comm>>;

constexpr int kRanks = 2, kRounds = 11, kWarmUp = 5;
constexpr std::size_t kArena = 256u << 20;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds of one all-reduce in place, as rank 0 sees it.
double all_reduce_seconds(const Comms& comms, std::int64_t count, bool arena, int calls) {
  double found = 0;
  run_ranks(comms, [&](Comm& comm) {
    Allocator& memory = arena ? *comm.arena() : allocator(kCpu);
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    auto* data = static_cast<float*>(memory.allocate(bytes));
    std::fill_n(data, count, 0.0f);
    const auto reduce = [&] { comm.all_reduce(data, data, count, DType::f32, ReduceOp::sum).wait(); };
    for (int i = 0; i < kWarmUp; ++i) reduce();
    comm.barrier().wait();
    const double begin = seconds();
    for (int i = 0; i < calls; ++i) reduce();
    if (comm.rank() == 0) found = (seconds() - begin) / calls;
    comm.barrier().wait();
    memory.deallocate(data, bytes);
  });
  return found;
}

double median_us(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return 1e6 * times[kRounds / 2];
}

}  // namespace

int main() {
  const Comms threads = make_thread_comms(kRanks);
  const Comms shared = make_shared_comms(kRanks, {.arena_bytes = kArena});
  fmt::print("{:>10} {:>12} {:>14} {:>14}\n", "bytes", "threads us", "shared, arena", "shared, plain");
  for (const std::int64_t count : {1, 64, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22}) {
    const int calls = static_cast<int>(std::clamp<std::int64_t>((1 << 23) / count, 12, 4000));
    std::array<std::vector<double>, 3> times;
    for (int round = 0; round < kRounds; ++round) {
      times[0].push_back(all_reduce_seconds(threads, count, false, calls));
      times[1].push_back(all_reduce_seconds(shared, count, true, calls));
      times[2].push_back(all_reduce_seconds(shared, count, false, calls));
    }
    fmt::print("{:>10} {:>12.2f} {:>14.2f} {:>14.2f}\n", count * 4, median_us(times[0]), median_us(times[1]),
               median_us(times[2]));
  }
}
