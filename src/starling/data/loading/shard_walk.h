#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "starling/data/records/record_reader.h"

namespace starling::data {

// Location of a record: index of its shard and offset in it.
struct RecordRef {
  std::int64_t shard = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const RecordRef&, const RecordRef&) = default;
};

// The shards of a data set and their sizes when it was opened. A shard whose size has changed since is refused: samples
// would be lost or duplicated silently.
class ShardSet {
 public:
  explicit ShardSet(RecordShards shards);  // throws if there are none, or if one cannot be accessed

  std::int64_t size() const { return static_cast<std::int64_t>(shards_.files.size()); }
  const std::filesystem::path& file(std::int64_t shard) const { return shards_.files[static_cast<std::size_t>(shard)]; }
  const std::string& name(std::int64_t shard) const { return names_[static_cast<std::size_t>(shard)]; }
  const RecordDecoder& decoder() const { return *shards_.decoder; }
  std::string fingerprint() const;  // of file names and sizes

  // open() and read() throw, naming shard and offset, if the shard cannot be read or its size has changed.
  std::unique_ptr<RecordReader> open(std::int64_t shard, std::uint64_t offset) const;
  const Record* read(std::int64_t shard, RecordReader& reader) const;  // next record of a reader from open()
  std::string describe(const RecordRef& ref) const;                    // "shard <file> at offset <n>"

 private:
  void check_unchanged(std::int64_t shard) const;

  RecordShards shards_;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::string> names_;  // paths for error messages
};

// Reads the shards of one epoch in the epoch's order, interleaving several.
class ShardWalk {
 public:
  struct Options {
    std::uint64_t seed = 0;
    bool shuffle = true;
    std::int64_t interleave = 1;
    int rank = 0;
    int ranks = 1;
  };
  struct OpenShard {
    std::int64_t shard = 0;
    std::uint64_t offset = 0;
  };
  struct Position {
    std::int64_t epoch = 0;
    std::int64_t next_shard = 0;  // first unopened one of this rank's shards in the epoch's order
    std::int64_t turn = 0;        // index into `open` of the shard to read next
    std::int64_t passed = 0;      // records seen, if ranks share shards
    std::vector<OpenShard> open{};
  };

  ShardWalk(std::shared_ptr<const ShardSet> shards, const Options& options);

  void begin_epoch(std::int64_t epoch);
  // The next record, or null when all shards are read; valid until the next call.
  const Record* next(RecordRef& ref);

  std::int64_t epoch() const { return epoch_; }
  void position(Position& into) const;  // position of the next record
  void restore(const Position& position);

 private:
  struct Open {
    std::int64_t shard = 0;
    std::unique_ptr<RecordReader> reader;
  };

  bool by_record() const { return shards_->size() < options_.ranks; }
  std::int64_t shards_of_rank() const;
  void open_more();

  std::shared_ptr<const ShardSet> shards_;
  Options options_;
  std::int64_t epoch_ = 0;
  std::int64_t next_shard_ = 0;
  std::int64_t turn_ = 0;
  std::int64_t passed_ = 0;
  std::vector<Open> open_;
};

}  // namespace starling::data
