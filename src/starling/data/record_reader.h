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

namespace starling {

// One named piece of a record: the file "0001.jpg" of a WebDataset sample has the name "jpg", a cell of a CSV row that
// of its column, the only piece of a TFRecord or of a line of text none.
struct RecordPart {
  std::string name{};
  std::span<const std::byte> bytes{};
};

// A record as it stands in a shard, not yet decoded.
struct Record {
  std::uint64_t offset = 0;  // where it begins; opening the shard there gives it as the first
  std::string key{};         // what the parts have in common (WebDataset), else empty
  std::vector<RecordPart> parts{};

  const RecordPart* find(std::string_view name) const;
};

// Reads the records of one shard front to back with memory for one record. Offsets are in the bytes of the file after
// unpacking: a shard that is gzipped is opened at an offset by unpacking what stands before it. One thread at a time.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // The next record, or null at the end of the shard; valid until the next call. Throws "[format] <file>: …" when the
  // shard is damaged or a record is larger than the limit; reading cannot go on after that.
  virtual const Record* next() = 0;
  // Where the next record begins (at the end: the size of the shard). Opening there goes on with exactly that record.
  virtual std::uint64_t offset() const = 0;
};

// What hostile or broken shards are held to.
struct RecordLimits {
  std::uint64_t most_record = std::uint64_t{256} << 20;   // bytes of one record
  std::uint64_t most_unpacked = std::uint64_t{64} << 30;  // bytes of one shard after unpacking
};

// Turns a record into the fields of a sample. Const and safe on any thread.
class RecordDecoder {
 public:
  virtual ~RecordDecoder() = default;
  virtual std::vector<TensorType> fields() const = 0;  // of one sample
  // Writes field f to out[f], dense on a CPU, of the type fields()[f]. `shard` stands in messages. Throws when the
  // record is not such a sample.
  virtual void decode(const Record& record, const std::string& shard, std::span<const Tensor> out) const = 0;
};

// Files of records and how a record becomes a sample: what a streaming data set is made of.
struct RecordShards {
  using Open = std::function<std::unique_ptr<RecordReader>(const std::filesystem::path& file, std::uint64_t offset)>;

  std::vector<std::filesystem::path> files{};
  Open open{};  // safe on any thread; an offset of 0 is the beginning
  std::shared_ptr<const RecordDecoder> decoder{};
};

}  // namespace starling
