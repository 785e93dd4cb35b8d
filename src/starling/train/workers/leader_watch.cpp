#include "starling/train/workers/leader_watch.h"

#include <limits>

namespace starling::train {

LeaderWatch::LeaderWatch(std::shared_ptr<dist::ps::Wire> wire, std::string address, std::chrono::milliseconds every)
    : every_(every),
      call_(std::move(wire), {.address = std::move(address), .worker = std::numeric_limits<int>::max()}) {
  thread_ = std::thread([this] { watch(); });
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
