#pragma once

#include <cstdint>

namespace starling::data {

// Interface of a RecordReader that can seek within its open shard.
class SeekableReader {
 public:
  virtual ~SeekableReader() = default;
  // Moves to the record at `offset`. False, with nothing changed, if it cannot (a gzipped shard, or past the end).
  virtual bool go_to(std::uint64_t offset) = 0;
};

}  // namespace starling::data
