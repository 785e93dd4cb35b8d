#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "starling/base/file.h"
#include "starling/data/record_reader.h"

namespace starling {

// Where each record of one shard begins: a file of 8 bytes a record and a footer, read where needed (never mapped, so
// that it does not count as memory). Safe on any thread.
class RecordIndex {
 public:
  // Opens the index at `path` when it is of this shard as it is now (name, size, time of change, checksum); else reads
  // the shard once and writes the index as a whole file.
  static RecordIndex open_or_build(const std::filesystem::path& shard, const std::filesystem::path& path,
                                   const RecordShards::Open& open);

  std::int64_t records() const { return records_; }
  std::uint64_t offset(std::int64_t record) const;
  bool built() const { return built_; }  // now, rather than found

 private:
  RecordIndex(UniqueFd file, std::filesystem::path path, std::int64_t records, bool built);

  UniqueFd file_;
  std::filesystem::path path_;
  std::int64_t records_ = 0;
  bool built_ = false;
};

}  // namespace starling
