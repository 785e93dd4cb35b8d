#include "starling/train/workers/leader_watch.h"

#include <algorithm>
#include <limits>

#include "starling/base/thread/make_thread.h"

namespace starling::train {

namespace {

constexpr std::chrono::milliseconds kLeast{500};  // between questions

LeaderLineOptions of_nobody(LeaderLineOptions options) {
  options.worker = std::numeric_limits<int>::max();
  return options;
}

}  // namespace

LeaderWatch::LeaderWatch(std::shared_ptr<dist::ps::Wire> wire, LeaderLineOptions options)
    : every_(std::max(kLeast, options.heartbeat)), call_(std::move(wire), of_nobody(std::move(options))) {
  thread_ = make_thread(thread_context().inherited(), [this] { watch(); });
}

LeaderWatch::~LeaderWatch() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

void LeaderWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, every_, [&] { return stop_; })) {
    lock.unlock();
    try {
      call_.call(Control::alive);
    } catch (const std::exception&) {
      gone_ = true;
      return;
    }
    lock.lock();
  }
}

}  // namespace starling::train
