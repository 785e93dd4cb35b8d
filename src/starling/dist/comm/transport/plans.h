#pragma once

#include <memory>
#include <vector>

#include "starling/dist/comm/algorithms/choose.h"

namespace starling::dist {

// Cache of schedules for the calls a communicator has seen. Keeps the last kMost of them. One thread at a time.
class SchedulePlans {
 public:
  static constexpr std::size_t kMost = 256;

  using Plan = std::shared_ptr<const Schedule>;

  SchedulePlans(int rank, int size, ChoiceRules rules) : rank_(rank), size_(size), rules_(std::move(rules)) {}

  const Plan& of(const Call& call);  // valid until the next call of this function
  ScheduleRequest request_of(const Call& call) const;
  const ChoiceRules& rules() const { return rules_; }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    CommOp op = CommOp::barrier;
    DType dtype = DType::u8;
    bool extremes = false;  // max or min: the order of combining does not matter
    int root = 0;
    std::int64_t count = 0;
    std::vector<std::int64_t> counts;
    Plan plan;
  };

  Plan make(const Call& call) const;

  int rank_, size_;
  ChoiceRules rules_;
  std::vector<Entry> entries_;
  std::size_t oldest_ = 0;
};

}  // namespace starling::dist
