#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::data {

// One named part of a record. The name is "jpg" for the file "0001.jpg" of a WebDataset sample, the column for a CSV
// cell, and empty for a TFRecord or a line of text.
struct RecordPart {
  std::string name{};
  std::span<const std::byte> bytes{};
};

// A record of a shard, not yet decoded.
struct Record {
  std::uint64_t offset = 0;  // start in the shard; a reader opened there returns this record first
  std::string key{};         // common name of the parts (WebDataset), else empty
  std::vector<RecordPart> parts{};

  const RecordPart* find(std::string_view name) const;
};

// Reads the records of one shard in order, with memory for one record. Offsets count uncompressed bytes: opening a
// gzipped shard at an offset decompresses everything before it. One thread at a time.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // The next record, or null at the end of the shard; valid until the next call. Throws "[format] <file>: …" if the
  // shard is damaged or a record exceeds the limit; the reader is unusable after that.
  virtual const Record* next() = 0;
  // Start of the next record (at the end: the size of the shard). A reader opened there continues with exactly that
  // record.
  virtual std::uint64_t offset() const = 0;
};

// Limits for hostile or broken shards.
struct RecordLimits {
  std::uint64_t most_record = std::uint64_t{256} << 20;   // bytes of one record
  std::uint64_t most_unpacked = std::uint64_t{64} << 30;  // bytes of one shard after unpacking
};

// Decodes a record into the fields of a sample. Const and thread-safe.
class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;
  virtual std::vector<TensorType> fields() const = 0;  // types of one sample's fields
  // Writes field f to out[f], a contiguous CPU tensor of type fields()[f]. `shard` is named in error messages. Throws
  // if the record does not hold such a sample.
  virtual void decode(const Record& record, const std::string& shard, std::span<const Tensor> out) const = 0;
};

// A streaming data set: shard files, how to open them, and the decoder of their records.
struct RecordShards {
  using Open = std::function<std::unique_ptr<RecordReader>(const std::filesystem::path& file, std::uint64_t offset)>;

  std::vector<std::filesystem::path> files{};
  Open open{};  // thread-safe; offset 0 is the beginning
  std::shared_ptr<const RecordDecoder> decoder{};
};

}  // namespace starling::data
