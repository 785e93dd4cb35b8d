#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "starling/data/dataset.h"
#include "starling/data/record_index.h"
#include "starling/data/shard_walk.h"

namespace starling {

struct IndexedRecordsOptions {
  std::filesystem::path index_folder{};  // where the index files are kept; empty: beside the shards
  int most_open = 64;                    // shards held open between reads
};

// Shards of records as a data set that can be asked by number, by means of an index of where each record begins. The
// index of a shard is built the first time and again when the shard has changed; it stays on disk, so that memory does
// not grow with the number of records. Gzipped shards are refused: a record of one would be
// found by unpacking all before it. Throws naming the shard and the offset.
class IndexedRecords final : public Dataset {
 public:
  explicit IndexedRecords(RecordShards shards, const IndexedRecordsOptions& options = {});
  ~IndexedRecords() override;

  std::int64_t size() const override { return first_.back(); }
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

  RecordRef place(std::int64_t row) const;  // where a sample lies
  std::int64_t indexes_built() const;       // now, rather than found

 private:
  class Readers;

  void read(const RecordRef& ref, std::span<const Tensor> sample) const;

  std::shared_ptr<const ShardSet> shards_;
  std::unique_ptr<Readers> readers_;
  std::vector<RecordIndex> indexes_;
  std::vector<std::int64_t> first_;  // number of the first record of each shard, and of all
};

}  // namespace starling
