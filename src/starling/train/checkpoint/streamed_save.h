#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/base/file/folder.h"
#include "starling/base/result.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/checkpoint/manifest.h"

namespace starling::train {

// Name of the manifest, and whether a file of a checkpoint holds tensors.
inline constexpr const char* kManifestFile = "manifest.json";
bool is_tensor_file(std::string_view name);

// Files of one checkpoint on their way into a temporary folder. begin() writes tensors straight from where they lie (or
// come from: Checkpoint::fetch), in pieces, up to the last `most_copied` bytes, which it copies; from then on the run
// may change all of them. finish(), on any thread, writes the copies, makes everything durable and publishes. Nothing
// is published before; an object that is destroyed unfinished leaves nothing behind. Memory beyond the run's: the
// copies and one piece.
class StreamedSave {
 public:
  // `temporary` becomes the checkpoint; `shard_bytes` as in CheckpointFolderOptions.
  StreamedSave(TemporaryFolder temporary, const Checkpoint& checkpoint, std::uint64_t shard_bytes);

  // Fails on a disk error and on an infinity or NaN, naming the tensor.
  Result<void> begin(std::uint64_t most_copied);
  Result<void> finish();

  std::int64_t step() const { return manifest_.step; }

 private:
  // A tensor and its file, in the order of the bytes in the files.
  struct Part {
    std::size_t shard = 0;
    NamedTensor tensor{};
  };

  Result<void> write_parts(std::size_t end);
  Result<void> open_shard(std::size_t shard);
  Result<void> write_manifest();
  void copy_rest();
  Result<void> write_finite(FileWriter& file, const NamedTensor& part) const;
  Tensor copy_of(const NamedTensor& part) const;

  TemporaryFolder temporary_;
  decltype(Checkpoint::fetch) fetch_;  // until begin() has ended
  Manifest manifest_;
  std::vector<Part> parts_;
  std::size_t shards_ = 1;
  std::size_t written_ = 0;        // parts written
  std::vector<FileWriter> files_;  // opened so far, by shard; synced at the end, beside the training
};

}  // namespace starling::train
