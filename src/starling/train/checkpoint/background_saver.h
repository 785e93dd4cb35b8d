#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "starling/train/checkpoint/checkpoint.h"

namespace starling::train {

// Saves checkpoints while training goes on. save() copies the tensors into reused memory and returns; a thread writes
// the copies. The written state is that at the call, and the checkpoint appears only once all of it is durable. One
// save at a time. Use from one thread.
class BackgroundSaver {
 public:
  struct Outcome {
    std::int64_t step = 0;
    Result<std::filesystem::path> result;
  };

  using Write = std::function<Result<std::filesystem::path>(const Checkpoint&)>;

  explicit BackgroundSaver(const CheckpointFolder& folder);
  explicit BackgroundSaver(Write write);
  ~BackgroundSaver();  // waits for the save under way
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Waits for the previous save and returns its outcome if that was not reported yet.
  std::optional<Outcome> save(const Checkpoint& checkpoint);

  std::optional<Outcome> poll();                     // outcome of a finished save, reported once; does not block
  std::optional<Outcome> wait();                     // as poll(), after waiting for the save under way
  bool idle_within(std::chrono::milliseconds time);  // false: a save is still under way after that time

 private:
  void work();
  void copy(const Checkpoint& checkpoint);

  Write write_;
  Checkpoint copy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool stopping_ = false;
  std::optional<Outcome> outcome_;
  std::thread thread_;
};

}  // namespace starling::train
