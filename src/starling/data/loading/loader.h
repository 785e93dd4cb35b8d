#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "starling/data/datasets/dataset.h"
#include "starling/data/loading/batch_slot.h"
#include "starling/data/loading/batch_source.h"
#include "starling/data/loading/portions.h"
#include "starling/data/loading/position.h"
#include "starling/data/loading/stream.h"
#include "starling/data/transform.h"
#include "starling/data/transform_pipeline.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct LoaderOptions {
  std::int64_t batch = 0;  // samples per batch over all ranks; for a stream: per rank
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // false: the last batch of an epoch may be smaller
  int workers = 1;         // threads that make batches; the batches do not depend on their number
  int prefetch = 2;        // batches made ahead
  std::int64_t prefetch_bytes = std::int64_t{2} << 30;  // memory limit of all batches; large batches reduce prefetch. A
                                                        // stream's raw records may take as much again
  std::vector<TransformStep> transforms{};
  int rank = 0;  // selects the part of each batch that this loader makes
  int ranks = 1;
  // How batches are cut over ranks (map-style data only). Ranks form `groups` of equal size: a batch is split over
  // groups, then over their members. shards > 0: a group's share is cut into this many slices, and members take whole
  // slices.
  int groups = 1;
  int shards = 0;
  bool deal = false;  // true: ranks make whole batches in turn instead
  data::DataPosition start{};
  // Map-style data only: batches are cut into `ranks` portions, and this loader makes those whose numbers it is given,
  // from `start` on; `rank`, `groups`, `shards` and `deal` are not used then. A null batch stands for no number.
  std::shared_ptr<data::Portions> portions{};
  // Batches are put on this device ahead of time, too (Batch::placed). Null: they stay on the CPU.
  std::shared_ptr<DeviceCopies> copies{};
};

// Counters of a loader since its construction.
struct LoaderStats {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::int64_t bytes = 0;  // bytes of the batches handed out
  double waited_s = 0;     // time next() blocked
  double made_s = 0;       // busy time summed over workers
};

// Makes batches ahead of time on worker threads, into reused buffers: no allocation per batch in steady state (data
// sets and decoders may allocate). Batches are bit for bit a function of data, seed and position, whatever the workers,
// the prefetching and where a run was resumed. Not thread-safe. The destructor waits only for the samples being made.
class Loader {
 public:
  // Map-style data, in an order that depends on (seed, epoch, position) alone.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  // Streamed shards; see RecordStream for their order. Without `options.shuffle`: the shards in their given order.
  Loader(data::RecordShards shards, const StreamOptions& stream, const LoaderOptions& options);
  // Batches of any other source, which knows its order and ranks itself: of the options only those of workers, memory,
  // transforms and start are used, and `batch` for batches_per_epoch().
  Loader(std::unique_ptr<data::BatchSource> source, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, or null at the end of an epoch (the call after that begins the next one). Blocks until the batch is
  // made. The batch and its tensors are valid until the next call of next, seek or restore. If a sample cannot be made:
  // returns the batches before it, then throws an Error naming the sample, again on every call.
  const Batch* next();

  // Position of the next batch. A loader started there, with any batch size, continues with exactly the next sample.
  // Map-style data seeks at once; a stream has to read the epoch up to there.
  data::DataPosition position() const { return position_; }
  void seek(data::DataPosition position);

  // State for checkpoints: the position and, for a stream, its shuffle buffer and open shards, so that it resumes
  // without reading the epoch again. restore() throws if the state has other data, another seed or other ranks, saying
  // which.
  nlohmann::json state();
  void restore(const nlohmann::json& state);

  const std::vector<TensorType>& fields() const { return pipeline_.fields(); }  // of a transformed sample
  bool streams() const { return streams_; }                                     // shards, not map-style data
  std::int64_t batches_per_epoch() const;                                       // -1: a stream of still unknown length
  std::int64_t samples_per_epoch() const;  // without the dropped last batch; -1: a stream of still unknown length
  LoaderStats stats() const;

 private:
  struct Worker {
    std::thread thread;
    TensorList staging;  // samples before the transforms
    data::MakeScratch scratch;
    TransformPipeline::Scratch transforms;
    std::vector<SampleKey> keys;
  };

  void prepare();
  void start();
  void go_back(const nlohmann::json& before);
  void stop();
  void work(Worker& worker);
  bool may_plan() const;
  void plan_batch(std::unique_lock<std::mutex>& lock);
  void skip_to_parts();
  void make_part(std::unique_lock<std::mutex>& lock, Worker& worker);
  void make_rows(BatchSlot& slot, std::int64_t begin, std::int64_t end, Worker& worker) const;
  void make_rows_or_tell(BatchSlot& slot, std::int64_t begin, std::int64_t end, Worker& worker) const;
  [[noreturn]] void tell_sample(BatchSlot& slot, std::int64_t begin, std::int64_t end, Worker& worker,
                                const std::string& message) const;
  void note_failure(std::uint64_t number, int part, std::exception_ptr error);
  void take_back();
  BatchSlot& slot_of(std::uint64_t number) { return *slots_[number % slots_.size()]; }
  void wait_until_ready(std::unique_lock<std::mutex>& lock);
  bool ready() const;

  LoaderOptions options_;
  std::unique_ptr<data::BatchSource> source_;
  bool streams_ = false;
  TransformPipeline pipeline_;
  data::DataPosition position_;
  std::vector<std::unique_ptr<BatchSlot>> slots_;
  std::vector<Worker> workers_;

  // Batches are numbered from the start; batch n uses slot n % slots_.size(). A batch is planned, made in parts, taken
  // by the user, and returned by the user's next call.
  mutable std::mutex mutex_;
  std::condition_variable work_;   // wakes workers: a part to make or a batch to plan
  std::condition_variable ready_;  // wakes the user's thread: a batch is made or planning has paused
  std::uint64_t planned_ = 0;
  std::uint64_t parted_ = 0;  // first batch with an unclaimed part
  std::uint64_t taken_ = 0;
  std::uint64_t returned_ = 0;
  bool planning_ = false;  // a worker is planning, or state() is reading the plans
  bool plan_failed_ = false;
  std::int64_t record_bytes_ = 0;
  std::int64_t last_record_bytes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::uint64_t failed_ = ~std::uint64_t{0};  // number of the first batch that cannot be made; error_ says why
  int failed_part_ = 0;
  std::exception_ptr error_;
  LoaderStats stats_;
};

}  // namespace starling
