#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/base/error.h"

namespace starling::runtime {

// Thrown to waiting devices when another device has failed; the failing device reports the cause.
class Cancelled : public Error {
 public:
  using Error::Error;
};

// Exchange of values between the devices of one program. Every value has its own slot; publish() never blocks, take()
// waits for the value. The sender owns the memory and keeps it until the value was taken.
class Rendezvous {
 public:
  explicit Rendezvous(std::size_t slots);

  void reset();  // before each run, while no thread uses it
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

}  // namespace starling::runtime
