#include "starling/runtime/execution/lane_thread.h"

#include <utility>

#include "starling/base/parallel.h"

namespace starling::runtime {

LaneThread::LaneThread(std::function<void()> work, int threads)
    : work_(std::move(work)), threads_(threads), thread_([this] { loop(); }) {}

LaneThread::~LaneThread() {
  {
    std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LaneThread::start() {
  {
    std::scoped_lock lock(mutex_);
    running_ = true;
    context_ = thread_context().for_call();
    context_.threads = threads_;
    error_ = nullptr;
  }
  changed_.notify_all();
}

void LaneThread::finish_quietly() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !running_; });
}

void LaneThread::finish() {
  finish_quietly();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void LaneThread::loop() {
  const ThreadScope threads(threads_);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return running_ || closing_; });
    if (closing_) return;
    lock.unlock();
    try {
      const ThreadContextScope scope(context_);
      work_();
    } catch (...) {
      error_ = std::current_exception();
    }
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace starling::runtime
