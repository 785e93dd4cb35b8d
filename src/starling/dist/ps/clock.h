#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace starling::dist::ps {

inline constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

// A clock counts a worker's steps, or whatever it calls so. `bound` is the s of stale-synchronous parallelism:
//   0            bulk-synchronous: a read at clock c has all updates of clocks before c, and no other
//   s            a read at clock c has all updates of clocks before c - s, and none of clock least + s or later
//   kUnbounded   asynchronous: reads never wait
// where least is the number of clocks that all workers have completed. Updates wait for the clock and apply in the
// order of clocks, then workers, if they come earlier than a read may see them; the pusher does not wait.
enum class Merge {
  each,  // every push is a step of the optimizer
  mean,  // pushes of one clock are one step with their mean, weighted by their samples
};
struct ClockOptions {
  int workers = 1;
  std::int64_t bound = kUnbounded;
  Merge merge = Merge::each;
  int quorum = 0;  // mean: pushes of distinct workers that make a step, later ones are dropped; 0: all of them
};

// Clocks of the workers, for one key.
class WorkerClocks {
 public:
  explicit WorkerClocks(const ClockOptions& options);

  // Makes reads wait for the worker from this clock on, or from `least` on if it comes back later than that: no other
  // worker falls behind by it.
  void join(int worker, std::int64_t clock);
  void complete(int worker, std::int64_t clock);
  void retire(int worker);

  std::int64_t least() const { return least_; }  // clocks that all who are left have completed; kUnbounded: none left
  std::int64_t of(int worker) const;
  bool may_read(std::int64_t clock) const;   // clock - least <= bound
  bool may_apply(std::int64_t clock) const;  // a read may see updates of this clock
  bool waits_for(int worker) const;
  int left() const;

 private:
  void settle();

  ClockOptions options_;
  std::vector<std::int64_t> done_;
  std::vector<bool> gone_;
  std::int64_t least_ = 0;
};

// Named numbers: of a server, or sums over servers.
using Counters = std::vector<std::pair<std::string, double>>;
double counter(const Counters& counters, const std::string& name);  // 0 if there is none of that name

// Number of occurrences of each value; larger values than kMost count as kMost.
class Histogram {
 public:
  static constexpr std::int64_t kMost = 64;
  void add(std::int64_t value);
  void append_to(Counters& counters, const std::string& name) const;  // "<name>.0", …; "<name>.largest"

 private:
  std::vector<std::int64_t> counts_;
  std::int64_t largest_ = 0;
};

}  // namespace starling::dist::ps
