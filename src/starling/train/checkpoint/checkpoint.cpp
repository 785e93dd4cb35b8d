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
#include "starling/base/file.h"
#include "starling/base/folder.h"
#include "starling/base/safe_path.h"
#include "starling/data/formats/safetensors.h"
#include "starling/tensor/bytes.h"
#include "starling/train/checkpoint/finite.h"
#include "starling/train/checkpoint/manifest.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTensors = "tensors";
constexpr std::string_view kExtension = ".safetensors";
constexpr const char* kManifest = "manifest.json";
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

// Name of the first tensor with an infinity or NaN; empty if none.
std::string first_not_finite(const std::vector<NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (is_float(tensor.dtype()) && !train::all_finite(data::on_host(tensor))) return name;
  }
  return "";
}

Result<train::Manifest> load_manifest(const fs::path& folder) {
  auto fd = open_beneath(folder, kManifest);
  if (!fd) return fd.failure();
  auto text = read_file(*fd, (folder / kManifest).string(), kMostManifestBytes);
  if (!text) return text.failure();
  return attempt([&] { return train::parse_manifest(*text, (folder / kManifest).string()); });
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return fmt::format("{}{}", kTensors, kExtension);
  return fmt::format("{}-{:05}-of-{:05}{}", kTensors, index + 1, count, kExtension);
}

bool is_shard(std::string_view name) { return name.starts_with(kTensors) && name.ends_with(kExtension); }

// Consecutive tensors grouped by file.
std::vector<std::span<const NamedTensor>> in_shards(std::span<const NamedTensor> tensors, std::uint64_t most) {
  std::vector<std::span<const NamedTensor>> shards;
  std::size_t begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i].tensor;
    const std::uint64_t size = bytes_of(tensor);
    if (i > begin && bytes + size > most) {
      shards.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += size;
  }
  shards.push_back(tensors.subspan(begin));
  return shards;
}

Result<train::ListedFile> write_shard(const fs::path& folder, const std::string& name,
                                      std::span<const NamedTensor> tensors, const data::SafetensorsMetadata& metadata) {
  auto file = FileWriter::create(folder / name);
  if (!file) return file.failure();
  if (auto result = data::write_safetensors(*file, tensors, metadata); !result) return result.failure();
  if (auto result = file->finish(); !result) return result.failure();
  return train::ListedFile{name, file->size(), file->checksum()};
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
    if (!is_shard(entry.name)) continue;
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

Result<fs::path> CheckpointFolder::save(const Checkpoint& checkpoint) const {
  check(checkpoint.step >= 0, "[checkpoint] expected a step of at least 0, got {}", checkpoint.step);
  if (const auto name = first_not_finite(checkpoint.tensors); !name.empty()) {
    return failure("[checkpoint] expected finite numbers at step {}, got an infinity or NaN in '{}'; nothing was saved",
                   checkpoint.step, name);
  }
  for (const auto& name : folders_in(folder_)) {
    if (name.starts_with(kTemporary)) remove_folder(folder_ / name);
  }
  const fs::path path = path_of(checkpoint.step);
  auto temporary = TemporaryFolder::create(path, folder_ / (std::string(kTemporary) + path.filename().string()));
  if (!temporary) return temporary.failure();
  if (auto result = write(checkpoint, temporary->path()); !result) return result.failure();
  if (auto result = temporary->publish(); !result) return result.failure();
  prune(checkpoint.step);
  return path;
}

Result<void> CheckpointFolder::write(const Checkpoint& checkpoint, const fs::path& temporary) const {
  const data::SafetensorsMetadata metadata = {{"step", std::to_string(checkpoint.step)}};
  train::Manifest manifest{.step = checkpoint.step, .files = {}, .extra = checkpoint.extra};
  const auto shards = in_shards(checkpoint.tensors, options_.shard_bytes);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    auto written = write_shard(temporary, shard_name(i, shards.size()), shards[i], metadata);
    if (!written) return written.failure();
    manifest.files.push_back(std::move(*written));
  }
  if (auto result = sync_folder(temporary); !result) return result;
  auto file = FileWriter::create(temporary / kManifest);
  if (!file) return file.failure();
  if (auto result = file->write(format_manifest(manifest)); !result) return result;
  return file->finish();
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
