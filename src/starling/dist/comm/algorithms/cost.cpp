#include "starling/dist/comm/algorithms/cost.h"

#include <algorithm>
#include <cstdlib>
#include <map>

namespace starling::dist {
namespace {

double reduction(const std::vector<LocalWork>& works, const LinkCosts& costs) {
  double seconds = 0;
  for (const LocalWork& work : works)
    seconds += static_cast<double>(work.to.bytes) * static_cast<double>(work.from.size()) * costs.reduce_byte;
  return seconds;
}

// Bytes by direction.
struct Flow {
  double out = 0, in = 0;
  void add(bool sends, double bytes) { (sends ? out : in) += bytes; }
  double busier() const { return std::max(out, in); }
};

struct Ranked {
  int rank;
  Schedule schedule;
};

class Prediction {
 public:
  Prediction(const CostModel& model, int size) : model_(model), size_(size) {}

  double seconds(const std::vector<Ranked>& by_rank) {
    double total = 0, first = 0;
    for (const Ranked& r : by_rank) first = std::max(first, reduction(r.schedule.first, model_.near));
    for (std::size_t round = 0; round < by_rank[0].schedule.rounds.size(); ++round) total += of_round(by_rank, round);
    return total + first;
  }

 private:
  bool known() const { return model_.hosts.size() == static_cast<std::size_t>(size_); }
  int host(int rank) const { return model_.hosts[static_cast<std::size_t>(rank)]; }

  double of_round(const std::vector<Ranked>& by_rank, std::size_t round) {
    out_of_host_.clear();
    if (model_.chain) links_.assign(static_cast<std::size_t>(size_), {});
    double slowest = 0, latest = 0;
    for (const auto& [rank, schedule] : by_rank) {
      const Round& own = schedule.rounds[round];
      slowest = std::max(slowest, of_rank(own, rank));
      latest = std::max(latest, reduction(own.then, model_.near));
    }
    for (const auto& [_, flow] : out_of_host_)
      slowest = std::max(slowest, model_.far.latency + flow.busier() * model_.far.per_byte);
    for (const Flow& link : links_)
      slowest = std::max(slowest, model_.far.latency + link.busier() * model_.far.per_byte);
    return slowest + latest;
  }

  // Time of a rank's round on a chain: links work in parallel, so the slowest message counts, which passes one link
  // after another. Also adds the load of each link on the path, rightward as out, leftward as in.
  double on_chain(const Round& round, int rank) {
    double slowest = 0;
    for (const ScheduledTransfer& transfer : round.transfers) {
      const double passing = model_.far.latency + static_cast<double>(transfer.block.bytes) * model_.far.per_byte;
      slowest = std::max(slowest, hops(rank, transfer) * passing);
    }
    return slowest;
  }

  int hops(int rank, const ScheduledTransfer& transfer) {
    const int from = transfer.sends ? rank : transfer.peer, to = transfer.sends ? transfer.peer : rank;
    if (transfer.sends) {
      for (int link = std::min(from, to); link < std::max(from, to); ++link)
        links_[static_cast<std::size_t>(link)].add(from < to, static_cast<double>(transfer.block.bytes));
    }
    return std::abs(from - to);
  }

  double of_rank(const Round& round, int rank) {
    if (model_.chain) return on_chain(round, rank);
    double latency = 0, overhead = 0;
    int sends = 0, receives = 0;
    Flow near, far;
    for (const ScheduledTransfer& transfer : round.transfers) {
      const bool inside = known() && host(rank) == host(transfer.peer);
      const LinkCosts& link = inside ? model_.near : model_.far;
      const auto bytes = static_cast<double>(transfer.block.bytes);
      latency = std::max(latency, link.latency);
      overhead = std::max(overhead, link.overhead);
      ++(transfer.sends ? sends : receives);
      (inside ? near : far).add(transfer.sends, bytes);
      if (known() && !inside) out_of_host_[host(rank)].add(transfer.sends, bytes);
    }
    return latency + overhead * std::max(0, std::max(sends, receives) - 1) + near.busier() * model_.near.per_byte +
           far.busier() * model_.far.per_byte;
  }

  const CostModel& model_;
  int size_;
  std::map<int, Flow> out_of_host_;
  std::vector<Flow> links_;
};

// True if this rank's schedule is evaluated. All are if ranks share links; in a large world otherwise only both ends,
// the middle and ranks next to the root, which do as much work as any.
bool looked_at(int rank, const ScheduleRequest& request, const CostModel& model) {
  constexpr int kLarge = 32, kSome = 8;
  if (request.size <= kLarge || model.chain || !model.hosts.empty()) return true;
  if (request.op == CommOp::broadcast) return true;
  const int from_root = (rank - request.root + request.size) % request.size;
  return rank < kSome || rank + 2 >= request.size || rank == request.size / 2 || from_root < kSome;
}

}  // namespace

double predict(const Algorithm& algorithm, ScheduleRequest request, const CostModel& model) {
  std::vector<Ranked> by_rank;
  for (int rank = 0; rank < request.size; ++rank) {
    if (!looked_at(rank, request, model)) continue;
    request.rank = rank;
    by_rank.push_back({rank, make_schedule(algorithm, request)});
  }
  return Prediction(model, request.size).seconds(by_rank);
}

}  // namespace starling::dist
