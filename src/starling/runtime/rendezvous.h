#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/base/error.h"

namespace starling {

// Thrown to those who wait when another device has failed: the failure itself is reported there.
class Cancelled : public Error {
 public:
  using Error::Error;
};

// Where the devices of one program hand values to each other. Every value has a slot of its own; publishing never
// blocks, taking waits until the value is there. The memory stays the sender's, who keeps it until the value was taken.
class Rendezvous {
 public:
  explicit Rendezvous(std::size_t slots);

  void reset();  // before each run, while nobody is inside
  void publish(std::size_t slot, const void* data);
  const void* take(std::size_t slot);  // throws Cancelled once cancelled
  void cancel(const std::string& why);

 private:
  struct Slot {
    std::atomic<bool> there{false};
    const void* data = nullptr;
  };
  [[noreturn]] void refuse();

  std::size_t count_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string why_;
};

}  // namespace starling
