#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "starling/base/file/file.h"
#include "starling/data/records/record_reader.h"

namespace starling::data {

// Offsets of the records of one shard: a file of 8 bytes per record and a footer, read on demand (not mapped, so that
// it does not count as memory). Thread-safe.
class RecordIndex {
 public:
  // Opens the index at `path` if it matches the shard (name, size, modification time, checksum); else reads the shard
  // once and writes the index atomically.
  static RecordIndex open_or_build(const std::filesystem::path& shard, const std::filesystem::path& path,
                                   const RecordShards::Open& open);

  std::int64_t records() const { return records_; }
  std::uint64_t offset(std::int64_t record) const;
  bool built() const { return built_; }  // false: found on disk

 private:
  RecordIndex(UniqueFd file, std::filesystem::path path, std::int64_t records, bool built);

  UniqueFd file_;
  std::filesystem::path path_;
  std::int64_t records_ = 0;
  bool built_ = false;
};

}  // namespace starling::data
