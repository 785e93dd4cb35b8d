#pragma once

#include <exception>
#include <mutex>

namespace starling {

// The first exception of several threads, to be thrown again by the one that waits for them: the others only follow
// from it.
class FirstError {
 public:
  // Keeps the exception being handled unless one is kept already.
  void capture() noexcept {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace starling
