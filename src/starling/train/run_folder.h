#pragma once

#include <functional>
#include <optional>
#include <string>

#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/job.h"

namespace starling {

// The folder of a run: job.yaml (the job as it was run, every value written out), checkpoints/, summary.json.
class RunFolder {
 public:
  explicit RunFolder(const TrainJob& job);

  // The newest sound checkpoint, or none when there is no checkpoint or the job starts over; then earlier ones step
  // aside into a folder of their own. `tell` gets a sentence for whatever is worth knowing. Throws when there are
  // checkpoints and none is sound.
  std::optional<Checkpoint> newest(const std::function<void(const std::string&)>& tell);

  Result<void> write_job(const Job& job) const;
  Result<std::filesystem::path> save(const Checkpoint& checkpoint) const { return checkpoints_.save(checkpoint); }

 private:
  void step_aside(const std::function<void(const std::string&)>& tell) const;

  std::filesystem::path folder_;
  Resume resume_;
  CheckpointFolder checkpoints_;
};

}  // namespace starling
