#pragma once

#include <cstdint>

namespace starling {

// What a RecordReader also is when it can go on elsewhere in its shard, without opening it again.
class SeekableReader {
 public:
  virtual ~SeekableReader() = default;
  // To the record that begins there. False: it cannot (a gzipped shard, behind the end), and nothing has changed.
  virtual bool go_to(std::uint64_t offset) = 0;
};

}  // namespace starling
