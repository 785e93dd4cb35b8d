#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "starling/train/checkpoint/checkpoint.h"

namespace starling {

// Saves checkpoints while training goes on. save() copies the tensors first, into memory that the next save uses again,
// and returns; a thread writes the copies. So what is written is the state at the call, and "the newest checkpoint"
// moves only when all of it is durable. One save is under way at a time. Use from one thread.
class BackgroundSaver {
 public:
  struct Outcome {
    std::int64_t step = 0;
    Result<std::filesystem::path> result;
  };

  explicit BackgroundSaver(CheckpointFolder folder);
  ~BackgroundSaver();  // waits for the save under way
  BackgroundSaver(const BackgroundSaver&) = delete;
  BackgroundSaver& operator=(const BackgroundSaver&) = delete;

  // Waits for the save before, whose outcome it returns if nobody has asked for it yet.
  std::optional<Outcome> save(const Checkpoint& checkpoint);

  std::optional<Outcome> poll();  // the outcome of a save that has ended, told once; does not block
  std::optional<Outcome> wait();  // the same when none is under way any more

 private:
  void work();
  void copy(const Checkpoint& checkpoint);

  CheckpointFolder folder_;
  Checkpoint copy_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool stopping_ = false;
  std::optional<Outcome> outcome_;
  std::thread thread_;
};

}  // namespace starling
