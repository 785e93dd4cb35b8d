#include "starling/train/checkpoint/streamed_save.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "starling/base/error.h"
#include "starling/data/formats/safetensors.h"
#include "starling/ops/def/apply.h"
#include "starling/tensor/bytes.h"
#include "starling/train/checkpoint/finite.h"

namespace starling::train {
namespace {

constexpr std::string_view kTensors = "tensors";
constexpr std::string_view kExtension = ".safetensors";

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return fmt::format("{}{}", kTensors, kExtension);
  return fmt::format("{}-{:05}-of-{:05}{}", kTensors, index + 1, count, kExtension);
}

// Consecutive tensors grouped by file; without tensors one empty group.
std::vector<std::span<const NamedTensor>> in_shards(std::span<const NamedTensor> tensors, std::uint64_t most) {
  std::vector<std::span<const NamedTensor>> shards;
  std::size_t begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t size = bytes_of(tensors[i].tensor);
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

bool is_elsewhere(const Tensor& tensor) { return tensor.device().kind == DeviceKind::null; }

}  // namespace

bool is_tensor_file(std::string_view name) { return name.starts_with(kTensors) && name.ends_with(kExtension); }

// Writes the bytes of a tensor, looking for infinities and NaN on the way.
Result<void> StreamedSave::write_finite(FileWriter& file, const NamedTensor& part) const {
  Result<void> done;
  const Checkpoint::Take write = [&](std::span<const std::byte> bytes) {
    if (all_finite(bytes, part.tensor.dtype())) {
      done = file.write(bytes);
    } else {
      done =
          failure("[checkpoint] expected finite numbers at step {}, got an infinity or NaN in '{}'; nothing was saved",
                  manifest_.step, part.name);
    }
    return done.ok();
  };
  if (is_elsewhere(part.tensor)) {
    fetch_(part, write);
  } else {
    data::for_host_pieces(part.tensor, write);
  }
  return done;
}

Tensor StreamedSave::copy_of(const NamedTensor& part) const {
  const NoGrad no_grad;
  Tensor copy = empty(part.tensor.shape(), part.tensor.dtype());
  if (!is_elsewhere(part.tensor)) {
    copy_into(copy, part.tensor.detach());
    return copy;
  }
  auto* to = static_cast<std::byte*>(copy.raw());
  fetch_(part, [&](std::span<const std::byte> bytes) {
    to = std::copy(bytes.begin(), bytes.end(), to);
    return true;
  });
  return copy;
}

StreamedSave::StreamedSave(TemporaryFolder temporary, const Checkpoint& checkpoint, std::uint64_t shard_bytes)
    : temporary_(std::move(temporary)),
      fetch_(checkpoint.fetch),
      manifest_{.step = checkpoint.step, .files = {}, .extra = checkpoint.extra} {
  const auto shards = in_shards(checkpoint.tensors, shard_bytes);
  shards_ = shards.size();
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    for (const std::size_t i : data::safetensors_order(shards[shard])) parts_.push_back({shard, shards[shard][i]});
  }
}

Result<void> StreamedSave::begin(std::uint64_t most_copied) {
  std::size_t copied = parts_.size();
  for (std::uint64_t bytes = 0; copied > 0; --copied) {
    bytes += bytes_of(parts_[copied - 1].tensor.tensor);
    if (bytes > most_copied) break;
  }
  if (auto written = write_parts(copied); !written) return written;
  copy_rest();
  fetch_ = nullptr;
  return {};
}

// Opens the file of a shard and writes its header.
Result<void> StreamedSave::open_shard(std::size_t shard) {
  std::vector<NamedTensor> tensors;
  for (const Part& part : parts_) {
    if (part.shard == shard) tensors.push_back(part.tensor);
  }
  const std::string head = data::safetensors_head(tensors, {{"step", std::to_string(manifest_.step)}});
  auto file = FileWriter::create(temporary_.path() / shard_name(shard, shards_));
  if (!file) return file.failure();
  files_.push_back(std::move(*file));
  return files_.back().write(head);
}

Result<void> StreamedSave::write_parts(std::size_t end) {
  for (; written_ < end; ++written_) {
    const Part& part = parts_[written_];
    if (part.shard == files_.size()) {
      if (auto opened = open_shard(part.shard); !opened) return opened;
    }
    if (auto done = write_finite(files_[part.shard], part.tensor); !done) return done;
  }
  return {};
}

// Keeps copies of what is not written yet, and nothing of what is.
void StreamedSave::copy_rest() {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    parts_[i].tensor.tensor = i < written_ ? Tensor() : copy_of(parts_[i].tensor);
}

Result<void> StreamedSave::write_manifest() {
  auto file = FileWriter::create(temporary_.path() / kManifestFile);
  if (!file) return file.failure();
  if (auto done = file->write(format_manifest(manifest_)); !done) return done;
  return file->finish();
}

Result<void> StreamedSave::finish() {
  if (auto written = write_parts(parts_.size()); !written) return written;
  if (files_.empty()) {  // no tensors
    if (auto opened = open_shard(0); !opened) return opened;
  }
  for (std::size_t shard = 0; shard < files_.size(); ++shard) {
    if (auto synced = files_[shard].finish(); !synced) return synced;
    manifest_.files.push_back({shard_name(shard, shards_), files_[shard].size(), files_[shard].checksum()});
  }
  if (auto written = write_manifest(); !written) return written;
  return temporary_.publish();  // syncs the names of all these files before it renames the folder
}

}  // namespace starling::train
