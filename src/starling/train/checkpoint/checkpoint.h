#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/result.h"
#include "starling/data/host_bytes.h"

namespace starling {

// The state of a run: plain logical tensors by name (parameters, optimizer state), whatever layout they are trained in,
// and a JSON object of everything else (random state, data position, versions, ISA).
struct Checkpoint {
  std::int64_t step = 0;
  std::vector<NamedTensor> tensors;  // when loaded: read-only views of the file
  nlohmann::json extra = nlohmann::json::object();
};

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> skipped;  // newer ones that were not whole, each with its reason
};

struct CheckpointFolderOptions {
  int keep = 3;                                        // newest ones that stay, at least 2
  std::uint64_t shard_bytes = std::uint64_t{1} << 30;  // of tensors in one file; a larger tensor has a file of its own
};

// Checkpoints of one run, one folder each: <folder>/step-00000042/{tensors.safetensors, manifest.json}, or, beyond
// shard_bytes, tensors-00001-of-00003.safetensors and so on. Killing the process at any moment leaves whole checkpoints
// only. One writer at a time; failures of the disk come back as results.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder, const CheckpointFolderOptions& options = {});
  CheckpointFolder(std::filesystem::path folder, int keep)
      : CheckpointFolder(std::move(folder), CheckpointFolderOptions{.keep = keep}) {}

  // Writes, makes durable, publishes, then removes the oldest ones beyond `keep`. Streams: the extra memory is one
  // tensor at most, and only for those not dense on a CPU. Returns the checkpoint's folder. Fails, leaving what was
  // there as it was, on any error of the disk and when a number is not finite. A checkpoint of the same step is
  // replaced; those of later steps are left alone.
  Result<std::filesystem::path> save(const Checkpoint& checkpoint) const;

  std::vector<std::int64_t> steps() const;           // published, ascending; whether they are sound is not looked at
  Result<Checkpoint> load(std::int64_t step) const;  // every checksum is verified
  Result<LoadedCheckpoint> load_latest() const;      // the newest sound one

 private:
  std::filesystem::path path_of(std::int64_t step) const;
  Result<void> write(const Checkpoint& checkpoint, const std::filesystem::path& temporary) const;
  void prune(std::int64_t newest) const;

  std::filesystem::path folder_;
  CheckpointFolderOptions options_;
};

}  // namespace starling
