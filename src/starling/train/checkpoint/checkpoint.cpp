#include "starling/train/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/base/file/folder.h"
#include "starling/base/file/safe_path.h"
#include "starling/data/formats/safetensors.h"
#include "starling/train/checkpoint/manifest.h"
#include "starling/train/checkpoint/streamed_save.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp-";  // being written or being removed; never read
constexpr std::size_t kMostManifestBytes = std::size_t{16} << 20;

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (at->symlink_status(ignored).type() == fs::file_type::directory) names.push_back(at->path().filename().string());
  }
  return names;
}

Result<train::Manifest> load_manifest(const fs::path& folder) {
  auto fd = open_beneath(folder, train::kManifestFile);
  if (!fd) return fd.failure();
  auto text = read_file(*fd, (folder / train::kManifestFile).string(), kMostManifestBytes);
  if (!text) return text.failure();
  return attempt([&] { return train::parse_manifest(*text, (folder / train::kManifestFile).string()); });
}

Result<void> add_tensors(std::shared_ptr<const MappedFile> file, const std::string& name,
                         std::vector<NamedTensor>& into) {
  auto shard = data::SafetensorsFile::open(std::move(file), name);
  if (!shard) return shard.failure();
  auto read = attempt([&] { return shard->tensors(); });
  if (!read) return read.failure();
  for (auto& tensor : *read) into.push_back(std::move(tensor));
  return {};
}

// First name that occurs in two shards; empty if none.
std::string repeated_name(const std::vector<NamedTensor>& tensors) {
  std::set<std::string_view> seen;
  for (const auto& [name, tensor] : tensors) {
    if (!seen.insert(name).second) return name;
  }
  return "";
}

Result<Checkpoint> load_folder(const fs::path& folder) {
  auto manifest = load_manifest(folder);
  if (!manifest) return manifest.failure();
  Checkpoint checkpoint{.step = manifest->step, .tensors = {}, .extra = std::move(manifest->extra)};
  bool found = false;
  for (const auto& entry : manifest->files) {
    auto file = map_listed(folder, entry, "checkpoint");
    if (!file) return file.failure();
    if (!train::is_tensor_file(entry.name)) continue;
    found = true;
    if (auto added = add_tensors(std::move(*file), (folder / entry.name).string(), checkpoint.tensors); !added)
      return added.failure();
  }
  if (!found) return failure("[checkpoint] {}: expected tensors in the manifest, got none", folder.string());
  if (const auto name = repeated_name(checkpoint.tensors); !name.empty())
    return failure("[checkpoint] {}: expected every tensor once, got '{}' twice", folder.string(), name);
  return checkpoint;
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, const CheckpointFolderOptions& options)
    : folder_(std::move(folder)), options_(options) {
  check(options.keep >= 2, "[checkpoint] expected to keep at least 2, got {}", options.keep);
}

fs::path CheckpointFolder::path_of(std::int64_t step) const { return folder_ / fmt::format("{}{:08}", kPrefix, step); }

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> steps;
  for (const auto& name : folders_in(folder_)) {
    if (!name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (path_of(step).filename() == name) steps.push_back(step);  // only the canonical spelling of the step
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<train::StreamedSave> CheckpointFolder::begin_save(const Checkpoint& checkpoint,
                                                         std::uint64_t most_copied) const {
  check(checkpoint.step >= 0, "[checkpoint] expected a step of at least 0, got {}", checkpoint.step);
  for (const auto& name : folders_in(folder_)) {
    if (name.starts_with(kTemporary)) remove_folder(folder_ / name);
  }
  const fs::path path = path_of(checkpoint.step);
  auto temporary = TemporaryFolder::create(path, folder_ / (std::string(kTemporary) + path.filename().string()));
  if (!temporary) return temporary.failure();
  train::StreamedSave save(std::move(*temporary), checkpoint, options_.shard_bytes);
  if (auto begun = save.begin(most_copied); !begun) return begun.failure();
  return save;
}

Result<fs::path> CheckpointFolder::finish_save(train::StreamedSave& save) const {
  if (auto done = save.finish(); !done) return done.failure();
  prune(save.step());
  return path_of(save.step());
}

Result<fs::path> CheckpointFolder::save(const Checkpoint& checkpoint) const {
  auto save = begin_save(checkpoint, 0);
  if (!save) return save.failure();
  return finish_save(*save);
}

// Renames before removing, so that a half removed checkpoint is never read. Steps after the newest saved one belong to
// a history that was rolled back: they are neither counted nor removed.
void CheckpointFolder::prune(std::int64_t newest) const {
  auto old = steps();
  std::erase_if(old, [&](std::int64_t step) { return step > newest; });
  for (std::size_t i = 0; i + static_cast<std::size_t>(options_.keep) < old.size(); ++i) {
    const fs::path path = path_of(old[i]);
    const fs::path doomed = folder_ / (std::string(kTemporary) + path.filename().string());
    if (::rename(path.c_str(), doomed.c_str()) == 0) remove_folder(doomed);
  }
}

Result<Checkpoint> CheckpointFolder::load(std::int64_t step) const {
  auto loaded = load_folder(path_of(step));
  if (loaded && loaded->step != step) {
    return failure("[checkpoint] {}: expected step {}, got {}", path_of(step).string(), step, loaded->step);
  }
  return loaded;
}

Result<LoadedCheckpoint> CheckpointFolder::load_latest() const {
  std::vector<std::string> skipped;
  const auto all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    auto loaded = load(*step);
    if (loaded) return LoadedCheckpoint{std::move(*loaded), std::move(skipped)};
    skipped.push_back(loaded.error());
  }
  std::string reasons;
  for (const auto& reason : skipped) reasons += "\n  " + reason;
  return failure("[checkpoint] expected a sound checkpoint in {}, got none{}", folder_.string(), reasons);
}

}  // namespace starling
