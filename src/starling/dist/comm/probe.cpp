#include "starling/dist/comm/probe.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace starling::dist {
namespace {

constexpr double kSeconds = 0.05;  // time budget of one measurement
constexpr int kWarmUp = 3;         // rounds to touch pages and warm up connections

double seconds_of(const std::function<void()>& body) {
  const auto began = CommClock::now();
  body();
  return std::chrono::duration<double>(CommClock::now() - began).count();
}

// Repetitions that fit the time budget, estimated from the first one.
std::int64_t rounds_in_time(double seconds) {
  return std::clamp(static_cast<std::int64_t>(kSeconds / std::max(seconds, 1e-9)), std::int64_t{3}, std::int64_t{200});
}

double median_seconds(std::int64_t rounds, const std::function<void()>& body) {
  std::vector<double> times;
  for (std::int64_t i = 0; i < rounds; ++i) times.push_back(seconds_of(body));
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

// One-way time: half of a round trip. Rank `first` decides the number of rounds.
double time_pair(Comm& comm, int first, int second, std::int64_t bytes) {
  std::vector<std::byte> data(static_cast<std::size_t>(bytes));
  const bool leads = comm.rank() == first;
  const int other = leads ? second : first;
  const auto there_and_back = [&] {
    if (leads) comm.send(data.data(), bytes, DType::u8, other).wait();
    comm.recv(data.data(), bytes, DType::u8, other).wait();
    if (!leads) comm.send(data.data(), bytes, DType::u8, other).wait();
  };
  for (int i = 1; i < kWarmUp; ++i) there_and_back();
  std::int64_t rounds = rounds_in_time(seconds_of(there_and_back));
  if (leads) comm.send(&rounds, 1, DType::i64, other).wait();
  if (!leads) comm.recv(&rounds, 1, DType::i64, other).wait();
  return 0.5 * median_seconds(rounds, there_and_back);
}

double time_reduce(Comm& comm, std::int64_t bytes) {
  const std::int64_t count = std::max<std::int64_t>(1, bytes / 4);
  std::vector<float> data(static_cast<std::size_t>(count), 0.0F);
  const auto reduce = [&] { comm.all_reduce(data.data(), data.data(), count, DType::f32, ReduceOp::sum).wait(); };
  for (int i = 1; i < kWarmUp; ++i) reduce();
  std::int64_t rounds = rounds_in_time(seconds_of(reduce));
  comm.all_reduce(&rounds, &rounds, 1, DType::i64, ReduceOp::min).wait();
  return median_seconds(rounds, reduce);
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
  comm.all_reduce(figures.data(), figures.data(), static_cast<std::int64_t>(figures.size()), DType::f64, ReduceOp::max,
                  {.name = "probe"})
      .wait();
  auto next = figures.begin();
  for (const auto& [first, second] : pairs) {
    PairProbe& pair = found.pairs.emplace_back(PairProbe{first, second, *next++});
    for (std::size_t i = 0; i < options.pair_bytes.size(); ++i) pair.transfer.push_back(*next++);
  }
  for (const auto bytes : options.reduce_bytes) found.reduces.push_back({bytes, *next++});
  return found;
}

}  // namespace starling::dist
