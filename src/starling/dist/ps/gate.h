#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "starling/dist/ps/clock.h"
#include "starling/dist/ps/message.h"

namespace starling::dist::ps {

// Gradient of a key that has arrived.
struct Push {
  int worker = 0;
  std::int64_t clock = 0;
  std::int64_t seen = -1;  // version of the weights it was computed from; -1: unknown
  double weight = 1;       // 0: the worker had nothing for this clock
  double lr = -1;
  Bytes rows{};  // row-sparse: i64; owner null: dense
  Bytes values{};
};
// Copies borrowed bytes into memory of their own: the sender may reuse what it lent once its push is acknowledged.
void keep(Bytes& bytes);

// Pushes that make one step of the optimizer together, by worker.
using Step = std::vector<Push>;

// Decides for one key when pushes become steps and when reads may be answered. Knows no tensors.
class Gate {
 public:
  explicit Gate(const ClockOptions& options) : options_(options), clocks_(options) {}

  // Events of a key: push() and tick(), a worker's clock; retire() and join(), workers that leave and come. Every
  // function returns the steps of the optimizer that may be made now, in order.
  std::vector<Step> push(Push push);
  std::vector<Step> tick(int worker, std::int64_t clock);
  std::vector<Step> retire(int worker);
  std::vector<Step> join(int worker, std::int64_t clock);

  bool may_read(std::int64_t clock) const;
  std::int64_t least() const;                  // clocks completed by all
  std::int64_t late() const { return late_; }  // pushes that came after their step was made
  std::size_t held() const;
  const WorkerClocks& clocks() const { return clocks_; }

 private:
  bool means() const { return options_.merge == Merge::mean; }
  bool round_complete() const;
  std::vector<Step> release();
  std::vector<Step> release_rounds();

  ClockOptions options_;
  WorkerClocks clocks_;
  std::map<std::int64_t, std::map<int, std::vector<Push>>> waiting_;  // by clock, then worker
  std::int64_t round_ = 0;                                            // mean: clocks that have been made steps
  std::int64_t late_ = 0;
};

}  // namespace starling::dist::ps
