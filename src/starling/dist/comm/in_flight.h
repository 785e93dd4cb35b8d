#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace starling::dist {

// State of a decorator's unfinished operations: a ring indexed by the decorator's own operation numbers. One thread
// adds; any thread may look up.
template <class State>
class InFlight {
 public:
  static constexpr std::uint64_t kSlots = 64;

  // Operation whose slot the next one will reuse, and which must have ended first. False if no slot is reused yet.
  bool oldest(std::uint64_t& number) const {
    number = next_ - kSlots;
    return next_ >= kSlots;
  }

  // Takes a slot, private to the adding thread until it hands out the number.
  std::uint64_t add() {
    std::scoped_lock lock(mutex_);
    return next_++;
  }
  State& slot(std::uint64_t number) { return slots_[number % kSlots]; }

  // Calls look(state). False if the slot has been reused since, which means that the operation ended long ago.
  template <class Look>
  bool find(std::uint64_t number, Look look) {
    std::scoped_lock lock(mutex_);
    if (number + kSlots < next_) return false;
    look(slot(number));
    return true;
  }

 private:
  std::mutex mutex_;
  std::uint64_t next_ = 0;
  std::array<State, kSlots> slots_;
};

}  // namespace starling::dist
