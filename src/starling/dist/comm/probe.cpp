#include "starling/dist/comm/probe.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace starling {
namespace {

constexpr std::int64_t kMoved = 64 << 20;  // bytes that one figure may cost

// Both sides of a measurement count alike.
int rounds_for(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>(kMoved / std::max<std::int64_t>(bytes, 1), 5, 200));
}

double median_seconds(int rounds, const std::function<void()>& body) {
  body();  // pages touched, connections warm
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto began = CommClock::now();
    body();
    times.push_back(std::chrono::duration<double>(CommClock::now() - began).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

// One way: half of there and back.
double time_pair(Comm& comm, int first, int second, std::int64_t bytes) {
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  const auto send = [&](int to) { comm.send(data.data(), bytes, DType::u8, to).wait(); };
  const auto recv = [&](int from) { comm.recv(data.data(), bytes, DType::u8, from).wait(); };
  const bool leads = comm.rank() == first;
  return 0.5 * median_seconds(rounds_for(bytes), [&] {
           if (leads) send(second);
           recv(leads ? second : first);
           if (!leads) send(first);
         });
}

double time_reduce(Comm& comm, std::int64_t bytes) {
  const std::int64_t count = std::max<std::int64_t>(1, bytes / 4);
  std::vector<float> data(static_cast<std::size_t>(count), 0.0F);
  return median_seconds(rounds_for(bytes),
                        [&] { comm.all_reduce(data.data(), data.data(), count, DType::f32, CommReduce::sum).wait(); });
}

std::vector<std::pair<int, int>> pairs_of(int size, int most) {
  std::vector<std::pair<int, int>> pairs;
  const bool all = size * (size - 1) / 2 <= most;
  for (int first = 0; first < size; ++first) {
    for (int second = first + 1; second < (all ? size : std::min(size, first + 2)); ++second)
      pairs.emplace_back(first, second);
  }
  return pairs;
}

}  // namespace

CommProbe probe(Comm& comm, const ProbeOptions& options) {
  CommProbe found;
  std::vector<double> figures;
  const auto pairs = pairs_of(comm.size(), options.most_pairs);
  for (const auto& [first, second] : pairs) {
    comm.barrier({.name = "probe"}).wait();
    const bool takes_part = comm.rank() == first || comm.rank() == second;
    figures.push_back(takes_part ? time_pair(comm, first, second, 4) : 0);
    for (const auto bytes : options.pair_bytes)
      figures.push_back(takes_part ? time_pair(comm, first, second, bytes) : 0);
  }
  comm.barrier({.name = "probe"}).wait();
  for (const auto bytes : options.reduce_bytes) figures.push_back(time_reduce(comm, bytes));
  comm.all_reduce(figures.data(), figures.data(), static_cast<std::int64_t>(figures.size()), DType::f64,
                  CommReduce::max, {.name = "probe"})
      .wait();
  auto next = figures.begin();
  for (const auto& [first, second] : pairs) {
    PairProbe& pair = found.pairs.emplace_back(PairProbe{first, second, *next++});
    for (std::size_t i = 0; i < options.pair_bytes.size(); ++i) pair.transfer.push_back(*next++);
  }
  for (const auto bytes : options.reduce_bytes) found.reduces.push_back({bytes, *next++});
  return found;
}

}  // namespace starling
