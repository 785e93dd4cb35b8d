#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/checkpoint/streamed_save.h"

namespace starling::train {

inline constexpr std::uint64_t kSaveMemory = std::uint64_t{64} << 20;  // bytes of a save beside the state, by default

// Saves checkpoints while training goes on, with bounded memory. save() writes what does not fit into `most_copied`
// bytes straight from the tensors, without waiting for the disk, copies the rest and returns; a thread writes the
// copies, syncs and publishes. The written state is that at the call, and the checkpoint appears only once all of it is
// durable. One save at a time. Use from one thread.
class BackgroundSaver {
 public:
  struct Outcome {
    std::int64_t step = 0;
    Result<std::filesystem::path> result;
  };

  using BeforePublishing = std::function<void(std::int64_t step)>;

  explicit BackgroundSaver(CheckpointFolder folder, std::uint64_t most_copied = kSaveMemory,
                           BeforePublishing before = {});
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
  Result<StreamedSave> begin(const Checkpoint& checkpoint) const;

  CheckpointFolder folder_;
  std::uint64_t most_copied_;
  BeforePublishing before_;
  std::optional<StreamedSave> save_;  // the one under way
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool stopping_ = false;
  std::optional<Outcome> outcome_;
  std::thread thread_;
};

}  // namespace starling::train
