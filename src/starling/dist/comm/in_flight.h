#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace starling {

// What a decorator remembers of its operations that have not ended: a ring indexed by the decorator's own numbers.
// One thread adds; any thread may look up.
template <class State>
class InFlight {
 public:
  static constexpr std::uint64_t kPlaces = 64;

  // The number that gives up its place to the next operation and so must have ended first; false: none does.
  bool oldest(std::uint64_t& number) const {
    number = next_ - kPlaces;
    return next_ >= kPlaces;
  }

  // Takes a place. It is the adding thread's own until the number is given to others.
  std::uint64_t add() {
    std::scoped_lock lock(mutex_);
    return next_++;
  }
  State& place(std::uint64_t number) { return places_[number % kPlaces]; }

  // Calls look(state) unless the operation's place has been taken since, which means that it ended long ago.
  template <class Look>
  bool find(std::uint64_t number, Look look) {
    std::scoped_lock lock(mutex_);
    if (number + kPlaces < next_) return false;
    look(place(number));
    return true;
  }

 private:
  std::mutex mutex_;
  std::uint64_t next_ = 0;
  std::array<State, kPlaces> places_;
};

}  // namespace starling
