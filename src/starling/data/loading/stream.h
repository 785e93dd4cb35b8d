#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/data/loading/shard_walk.h"
#include "starling/data/records/packed_record.h"
#include "starling/data/records/record_reader.h"

namespace starling {

struct StreamOptions {
  std::int64_t shuffle_samples = 10'000;                // capacity of the shuffle buffer; 1: no shuffling
  std::int64_t shuffle_bytes = std::int64_t{64} << 20;  // memory limit of the buffer; the limit reached first holds
  std::int64_t interleave = 4;                          // shards read in turn
  bool shuffle_shards = true;                           // false: shards in the given order

  static Settings settings() {
    return {
        setting("shuffle_samples", &StreamOptions::shuffle_samples,
                "samples that the shuffle buffer holds at most; 1: no shuffling", {.min = 1}),
        setting("shuffle_bytes", &StreamOptions::shuffle_bytes, "memory of the shuffle buffer at most", {.min = 4096}),
        setting("interleave", &StreamOptions::interleave, "shards read from in turn", {.min = 1, .max = 1024}),
        setting("shuffle_shards", &StreamOptions::shuffle_shards, "take the shards in another order every epoch")};
  }
};

// Streaming data set over shards, in an order determined by seed, epoch and shards: shards in the epoch's order,
// `interleave` of them in turn, through a shuffle buffer from which random samples are drawn. Holds the buffer and one
// record per open shard in memory. One thread at a time.
class RecordStream {
 public:
  struct Options {
    StreamOptions stream{};
    std::uint64_t seed = 0;
    int rank = 0;  // takes every ranks-th shard of the epoch's order, or record if there are fewer shards than ranks
    int ranks = 1;
  };
  RecordStream(std::shared_ptr<const data::ShardSet> shards, const Options& options);

  // Begins an epoch: nothing is read yet.
  void begin_epoch(std::int64_t epoch);

  // Log of the changes since a mark, so that state() can undo them: the loader works ahead of its user.
  struct Step {
    data::RecordRef ref{};
    std::uint32_t taken_from = 0;  // index in the buffer, or kAdded if the record entered it
  };
  static constexpr std::uint32_t kAdded = ~std::uint32_t{0};
  struct Journal {
    data::ShardWalk::Position walk{};  // position at the mark
    std::int64_t emitted = 0;
    std::vector<Step> steps{};
  };

  // Takes the next sample; false at the end of the epoch, or once `stop` is set. Logs its changes to the journal, also
  // when it throws. Throws naming the shard and the offset.
  bool next(data::PackedRecord& into, data::RecordRef& ref, Journal& journal, const std::atomic<bool>& stop);
  void mark(Journal& journal) const;  // clears the journal and stores the current position

  // State now, or before the given journals (newest first). restore() throws if shards, seed, ranks or options differ
  // from the saved ones, naming what differs.
  nlohmann::json state(const std::vector<const Journal*>& undone) const;
  void restore(const nlohmann::json& state);

  std::int64_t epoch() const { return walk_.epoch(); }
  std::int64_t emitted() const { return emitted_; }  // samples returned in this epoch
  std::int64_t held_bytes() const { return pool_->held_bytes(); }

 private:
  struct Held {
    data::RecordRef ref{};
    data::PackedRecord record{};
  };

  void fill(Journal& journal, const std::atomic<bool>& stop);
  bool full() const;
  nlohmann::json identity() const;
  void read_back(const std::vector<data::RecordRef>& refs);

  std::shared_ptr<const data::ShardSet> shards_;
  Options options_;
  std::shared_ptr<data::RecordPool> pool_;
  data::ShardWalk walk_;
  std::vector<Held> buffer_;
  std::int64_t buffer_bytes_ = 0;
  std::int64_t emitted_ = 0;
};

}  // namespace starling
