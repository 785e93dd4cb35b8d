#include "starling/train/checkpoint/background_saver.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "starling/base/error.h"

namespace starling::train {

BackgroundSaver::BackgroundSaver(CheckpointFolder folder, std::uint64_t most_copied, BeforePublishing before)
    : folder_(std::move(folder)), most_copied_(most_copied), before_(std::move(before)), thread_([this] { work(); }) {}

BackgroundSaver::~BackgroundSaver() {
  {
    std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// A save that cannot be made is told like a disk that is full.
Result<StreamedSave> BackgroundSaver::begin(const Checkpoint& checkpoint) const {
  try {
    return folder_.begin_save(checkpoint, most_copied_);
  } catch (const std::exception& error) {
    return failure("{}", error.what());
  }
}

std::optional<BackgroundSaver::Outcome> BackgroundSaver::save(const Checkpoint& checkpoint) {
  auto before = wait();
  save_.reset();
  auto begun = begin(checkpoint);
  {
    std::scoped_lock lock(mutex_);
    busy_ = begun.ok();
    if (begun) {
      save_.emplace(std::move(*begun));
    } else {
      outcome_ = Outcome{checkpoint.step, begun.failure()};
    }
  }
  changed_.notify_all();
  return before;
}

std::optional<BackgroundSaver::Outcome> BackgroundSaver::poll() {
  std::scoped_lock lock(mutex_);
  return busy_ ? std::nullopt : std::exchange(outcome_, std::nullopt);
}

std::optional<BackgroundSaver::Outcome> BackgroundSaver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
  return std::exchange(outcome_, std::nullopt);
}

bool BackgroundSaver::idle_within(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [&] { return !busy_; });
}

void BackgroundSaver::work() {
  ::pthread_setname_np(::pthread_self(), "starling-saver");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return busy_ || stopping_; });
    if (!busy_) return;
    lock.unlock();
    Outcome outcome{save_->step(), failure("[checkpoint] expected to save step {}", save_->step())};
    try {
      if (before_) before_(save_->step());
      outcome.result = folder_.finish_save(*save_);
    } catch (const std::exception& error) {
      outcome.result = failure("{}", error.what());
    }
    save_.reset();  // frees its memory, and all that a failed save has left
    lock.lock();
    outcome_ = std::move(outcome);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace starling::train
