#include "starling/dist/comm/transport/measure_links.h"

#include <algorithm>
#include <map>

#include "starling/base/clock.h"
#include "starling/base/error.h"
#include "starling/dist/comm/reduce.h"
#include "starling/dist/comm/transport/progress_engine.h"

namespace starling::dist {
namespace {

constexpr std::size_t kSmall = 8, kLarge = 128 * 1024;
constexpr int kSmallTimes = 15, kLargeTimes = 5, kBurst = 4;
constexpr double kLeast = 1e-12;  // seconds: lower bound of any cost

template <class Body>
double median_of(int times, Body body) {
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) {
    const CommTime start = CommClock::now();
    body();
    seconds.push_back(seconds_since(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + times / 2, seconds.end());
  return seconds[static_cast<std::size_t>(times / 2)];
}

double reduce_cost() {
  std::vector<float> a(kReduceBlock, 1.0f), b(kReduceBlock, 2.0f), out(kReduceBlock);
  const void* sources[] = {a.data(), b.data()};
  const double block =
      median_of(9, [&] { reduce_block(DType::f32, ReduceOp::sum, sources, 0, kReduceBlock, out.data()); });
  return std::max(kLeast, block / (2.0 * kReduceBlock * sizeof(float)));
}

// Sends to `next` while receiving from `before`. If both are this rank, there is nothing to measure: zeros.
LinkCosts measure(Transport& t, int next, int before, CommTime deadline) {
  LinkCosts costs{0, 0, 0, reduce_cost()};
  if (next == t.rank()) return costs;
  std::vector<std::byte> out(kLarge), in(kLarge);
  const auto once = [&](std::size_t bytes) {
    exchange(t, next, out.data(), before, in.data(), bytes, kMeasureChannel, deadline);
  };
  const auto burst = [&] {
    std::vector<Transport::Transfer> transfers;
    for (std::size_t i = 0; i < kBurst; ++i)
      transfers.push_back(t.recv(before, kMeasureChannel, in.data() + i * kSmall, kSmall));
    for (std::size_t i = 0; i < kBurst; ++i) transfers.push_back(t.send(next, kMeasureChannel, out.data(), kSmall));
    finish(t, std::move(transfers), "measuring links", deadline);
  };
  const double small = median_of(kSmallTimes, [&] { once(kSmall); });
  const double several = median_of(kSmallTimes, burst);
  const double large = median_of(kLargeTimes, [&] { once(kLarge); });
  costs.latency = std::max(kLeast, small);
  costs.overhead = std::max(kLeast, (several - small) / (kBurst - 1));
  costs.per_byte = std::max(kLeast, (large - small) / static_cast<double>(kLarge - kSmall));
  return costs;
}

}  // namespace

void finish(Transport& transport, std::vector<Transport::Transfer> transfers, std::string_view what,
            CommTime deadline) {
  for (;;) {
    std::erase_if(transfers, [&](Transport::Transfer t) { return transport.test(t); });
    if (transfers.empty()) return;
    if (CommClock::now() >= deadline) {
      transport.abort("a rank was late");
      fail(
          "[comm] expected all ranks to take part in {} by the deadline, {} transfers of rank {} of {} are outstanding",
          what, transfers.size(), transport.rank(), transport.size());
    }
    transport.wait(std::min(deadline, CommClock::now() + std::chrono::milliseconds(10)));
  }
}

void exchange(Transport& transport, int to, const void* out, int from, void* in, std::size_t bytes,
              std::uint32_t channel, CommTime deadline) {
  const auto receiving = transport.recv(from, channel, in, bytes);
  const auto sending = transport.send(to, channel, out, bytes);
  finish(transport, {receiving, sending}, "measuring links", deadline);
}

MeasuredLinks measure_links(Transport& transport, const std::vector<int>& hosts, CommTime deadline) {
  const int rank = transport.rank(), size = transport.size();
  if (hosts.empty()) {
    const LinkCosts all = measure(transport, (rank + 1) % size, (rank + size - 1) % size, deadline);
    return {all, all};
  }
  check(hosts.size() == static_cast<std::size_t>(size), "[comm] expected the host of each of {} ranks, got {}", size,
        hosts.size());
  std::map<int, std::vector<int>> by_host;
  for (int r = 0; r < size; ++r) by_host[hosts[static_cast<std::size_t>(r)]].push_back(r);
  const auto& own = by_host[hosts[static_cast<std::size_t>(rank)]];
  const auto local = static_cast<std::size_t>(std::find(own.begin(), own.end(), rank) - own.begin());
  const std::size_t locals = own.size();
  const LinkCosts near = measure(transport, own[(local + 1) % locals], own[(local + locals - 1) % locals], deadline);
  // Links between hosts are measured by the first rank of each host.
  std::vector<int> firsts;
  for (const auto& [host, ranks] : by_host) firsts.push_back(ranks[0]);
  if (local != 0) return {measure(transport, rank, rank, deadline), near};
  const auto place = static_cast<std::size_t>(std::find(firsts.begin(), firsts.end(), rank) - firsts.begin());
  const LinkCosts far = measure(transport, firsts[(place + 1) % firsts.size()],
                                firsts[(place + firsts.size() - 1) % firsts.size()], deadline);
  return {far, near};
}

}  // namespace starling::dist
