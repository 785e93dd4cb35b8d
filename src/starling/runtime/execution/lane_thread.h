#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "starling/base/thread/thread_context.h"

namespace starling::runtime {

// Thread that runs the same work each time it is started: a lane of an instance other than the caller's. Its parallel
// regions use `threads` threads.
class LaneThread {
 public:
  explicit LaneThread(std::function<void()> work, int threads = 1);
  ~LaneThread();
  LaneThread(const LaneThread&) = delete;
  LaneThread& operator=(const LaneThread&) = delete;

  void start();
  void finish();          // waits, then rethrows an exception of the work
  void finish_quietly();  // waits only

 private:
  void loop();

  std::function<void()> work_;
  int threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false;
  bool closing_ = false;
  ThreadContext context_;  // of the work, from the thread that started it and waits for it
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace starling::runtime
