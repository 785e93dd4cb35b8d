#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "starling/base/result.h"
#include "starling/data/formats/host_bytes.h"

namespace starling::train {
class StreamedSave;

// Passes on the bytes of a tensor that lies elsewhere, in pieces, until `take` returns false.
using TakeBytes = std::function<bool(std::span<const std::byte>)>;
using FetchBytes = std::function<bool(const NamedTensor& tensor, const TakeBytes& take)>;
}  // namespace starling::train

namespace starling {

// State of a run: logical tensors by name (parameters, optimizer state), independent of memory format and layout over
// ranks, and everything else as JSON (random state, data position, versions, ISA).
struct Checkpoint {
  std::int64_t step = 0;
  std::vector<NamedTensor> tensors;  // after loading: read-only views of the file
  nlohmann::json extra = nlohmann::json::object();
  // Bytes of tensors on the null device, which lie elsewhere (on other ranks) and come while they are written. Null:
  // there are none. Valid as long as who made the checkpoint says.
  using Take = train::TakeBytes;
  train::FetchBytes fetch{};
};

struct LoadedCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> skipped;  // newer but damaged checkpoints, each with the reason
};

struct CheckpointFolderOptions {
  int keep = 3;                                        // newest checkpoints to keep, at least 2
  std::uint64_t shard_bytes = std::uint64_t{1} << 30;  // of tensors per file; a larger tensor gets its own file
};

// Checkpoints of one run, one folder each: <folder>/step-00000042/{tensors.safetensors, manifest.json}, or, beyond
// shard_bytes, tensors-00001-of-00003.safetensors and so on. Killing the process at any moment leaves only complete
// checkpoints. One writer at a time; disk errors are returned as results.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder, const CheckpointFolderOptions& options = {});
  CheckpointFolder(std::filesystem::path folder, int keep)
      : CheckpointFolder(std::move(folder), CheckpointFolderOptions{.keep = keep}) {}

  // Writes, syncs, publishes, then removes the oldest checkpoints beyond `keep`. Extra memory is a few megabytes (one
  // tensor at a time where tensors lie on another device). Returns the checkpoint's folder. On a disk error or a
  // non-finite number, fails and leaves existing checkpoints unchanged. Replaces a checkpoint of the same step; later
  // steps are left alone.
  Result<std::filesystem::path> save(const Checkpoint& checkpoint) const;

  // save() in two parts (StreamedSave tells what each does): after the first the tensors may change, and at most
  // `most_copied` bytes of them are held until the second, which any thread may do.
  Result<train::StreamedSave> begin_save(const Checkpoint& checkpoint, std::uint64_t most_copied) const;
  Result<std::filesystem::path> finish_save(train::StreamedSave& save) const;

  std::vector<std::int64_t> steps() const;           // published steps, ascending; not verified
  Result<Checkpoint> load(std::int64_t step) const;  // verifies every checksum
  Result<LoadedCheckpoint> load_latest() const;      // the newest intact one

 private:
  std::filesystem::path path_of(std::int64_t step) const;
  void prune(std::int64_t newest) const;

  std::filesystem::path folder_;
  CheckpointFolderOptions options_;
};

}  // namespace starling
