#include "starling/train/checkpoint/background_saver.h"

#include <pthread.h>

#include <exception>
#include <utility>

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/tensor/device.h"

namespace starling::train {

BackgroundSaver::BackgroundSaver(const CheckpointFolder& folder)
    : BackgroundSaver([folder](const Checkpoint& checkpoint) { return folder.save(checkpoint); }) {}

BackgroundSaver::BackgroundSaver(Write write) : write_(std::move(write)), thread_([this] { work(); }) {}

BackgroundSaver::~BackgroundSaver() {
  {
    std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// Reuses the previous copy's tensors if name and type match, since a run saves the same set every time.
void BackgroundSaver::copy(const Checkpoint& checkpoint) {
  const NoGrad no_grad;
  copy_.step = checkpoint.step;
  copy_.extra = checkpoint.extra;
  copy_.tensors.resize(checkpoint.tensors.size());
  for (std::size_t i = 0; i < checkpoint.tensors.size(); ++i) {
    const auto& [name, tensor] = checkpoint.tensors[i];
    NamedTensor& own = copy_.tensors[i];
    own.name = name;
    if (!own.tensor.defined() || own.tensor.type() != tensor.type()) own.tensor = empty(tensor.shape(), tensor.dtype());
    copy_into(own.tensor, tensor.detach());
  }
}

std::optional<BackgroundSaver::Outcome> BackgroundSaver::save(const Checkpoint& checkpoint) {
  auto before = wait();
  copy(checkpoint);
  {
    std::scoped_lock lock(mutex_);
    busy_ = true;
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
    Outcome outcome{copy_.step, failure("[checkpoint] expected to save step {}", copy_.step)};
    try {
      outcome.result = write_(copy_);
    } catch (const std::exception& error) {
      outcome.result = failure("{}", error.what());
    }
    lock.lock();
    outcome_ = std::move(outcome);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace starling::train
