#include "starling/train/ranks/thread_watch.h"

#include <algorithm>

#include "starling/dist/health/failure_detector.h"

namespace starling::train {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kShortestLook{10}, kLongestLook{500};
constexpr milliseconds kToLeave{3'000};  // for ranks whose communicator was broken

}  // namespace

ThreadWatch::ThreadWatch(int workers, double deadline, std::function<void(const std::string&)> hung)
    : deadline_(std::chrono::ceil<milliseconds>(std::chrono::duration<double>(deadline))), hung_(std::move(hung)) {
  if (deadline_.count() == 0) return;
  for (int rank = 0; rank < workers; ++rank) progress_by_rank_.push_back(std::make_shared<dist::RankProgress>());
  thread_ = std::thread([this] { run(); });
}

ThreadWatch::~ThreadWatch() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ThreadWatch::join(int rank, std::weak_ptr<Comm> comm) {
  const std::scoped_lock lock(mutex_);
  there_[rank] = std::move(comm);
}

void ThreadWatch::leave(int rank) {
  {
    const std::scoped_lock lock(mutex_);
    there_.erase(rank);
  }
  changed_.notify_all();
}

void ThreadWatch::run() {
  const milliseconds period = std::clamp(deadline_ / 20, kShortestLook, kLongestLook);
  dist::FailureDetector detector;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, period, [&] { return stop_; })) {
    for (int rank = 0; rank < static_cast<int>(progress_by_rank_.size()); ++rank) {
      if (!there_.contains(rank)) {
        detector.leave(rank, Clock::now());
        continue;
      }
      dist::Beat beat = dist::beat_of(*progress_by_rank_[static_cast<std::size_t>(rank)], deadline_);
      beat.every = 4 * period;  // a longer gap means that the process was stopped
      detector.beat(rank, std::move(beat), Clock::now());
    }
    const auto& found = detector.look(Clock::now());
    if (!found) continue;
    const std::string text = found->text;
    lock.unlock();
    break_all(text);
    lock.lock();
    const bool gone = changed_.wait_for(lock, kToLeave, [&] { return stop_ || there_.empty(); });
    lock.unlock();
    if (!gone && hung_) hung_(text);
    return;
  }
}

void ThreadWatch::break_all(const std::string& finding) {
  std::vector<std::shared_ptr<Comm>> comms;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [rank, comm] : there_) comms.push_back(comm.lock());
  }
  for (const auto& comm : comms) {
    if (comm != nullptr) comm->abort(finding);
  }
}

}  // namespace starling::train
