#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/data/loading/shard_walk.h"
#include "starling/data/records/record_index.h"

namespace starling::data {

struct IndexedRecordsOptions {
  std::filesystem::path index_folder{};  // folder of the index files; empty: beside the shards
  int most_open = 64;                    // shards kept open between reads
};

// Shards of records as a map-style data set, by an index of record offsets. A shard's index is built on first use and
// whenever the shard changes; it stays on disk, so memory does not grow with the number of records. Gzipped shards are
// refused, since they allow no random access. Throws naming the shard and the offset.
class IndexedRecords final : public Dataset {
 public:
  explicit IndexedRecords(const RecordShards& shards, const IndexedRecordsOptions& options = {});
  ~IndexedRecords() override;

  std::int64_t size() const override { return first_.back(); }
  std::vector<TensorType> fields() const override;
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override;

  RecordRef place(std::int64_t row) const;  // shard and offset of a sample
  std::int64_t indexes_built() const;       // indexes built by the constructor; the others were found on disk

 private:
  class Readers;

  void read(const RecordRef& ref, std::span<const Tensor> sample) const;

  std::shared_ptr<const ShardSet> shards_;
  std::unique_ptr<Readers> readers_;
  std::vector<RecordIndex> indexes_;
  std::vector<std::int64_t> first_;  // index of each shard's first record; last: the total
};

}  // namespace starling::data
