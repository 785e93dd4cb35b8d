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

#include "starling/data/batch_slot.h"
#include "starling/data/batch_source.h"
#include "starling/data/dataset.h"
#include "starling/data/position.h"
#include "starling/data/stream.h"
#include "starling/data/transform.h"
#include "starling/data/transform_pipeline.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct LoaderOptions {
  std::int64_t batch = 0;  // samples in a batch over all ranks together; of a stream: on each rank
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // false: the last batch of an epoch is smaller
  int workers = 1;         // threads that make batches; what comes out does not depend on it
  int prefetch = 2;        // batches made ahead
  std::int64_t prefetch_bytes = std::int64_t{2} << 30;  // memory of all batches, fewer are made ahead where they are
                                                        // large; the records of a stream may hold as much again
  std::vector<TransformStep> transforms{};
  int rank = 0;  // which part of every batch is made here
  int ranks = 1;
  // How batches are cut; not of streams. Ranks lie in so many groups of equal size one after another: groups share a
  // batch first, then their members what falls to them, shards > 0: in whole ones of so many slices of it.
  int groups = 1;
  int shards = 0;
  bool deal = false;  // or ranks make whole batches in turn
  DataPosition start{};
};

// What a loader did since it was made.
struct LoaderStats {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::int64_t bytes = 0;  // of the batches handed out
  double waited_s = 0;     // next() waited so long for a batch to be made
  double made_s = 0;       // the workers were busy so long, all together
};

// Makes batches ahead on threads of its own, into buffers that are used over and over: no allocation per batch once all
// buffers have been round (data sets and decoders may make their own). Batches and their bits are a function of data,
// seed and position: not of workers, prefetching or where a run was resumed. Use from one thread. Destroying it waits
// for the samples that are being made, no longer.
class Loader {
 public:
  // Samples by number, in an order that is a function of (seed, epoch, position) alone.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  // Samples of shards without an index; see RecordStream for their order. `options.shuffle` off: the order of the
  // shards.
  Loader(RecordShards shards, const StreamOptions& stream, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, or null where an epoch ends (the call after that begins the next epoch). Blocks until it is made.
  // The batch and the memory of its tensors are valid until the next call of next, seek or restore. When a sample
  // cannot be made: hands out the batches before it, then throws an Error that names it, again at every call.
  const Batch* next();

  // Where the next batch begins. On a data set that can be asked by number, starting a loader there, of whatever batch
  // size, goes on with exactly the next sample. A stream does so too but has to read the epoch up to there.
  DataPosition position() const { return position_; }
  void seek(DataPosition position);

  // The same with all that a stream needs to go on at once: what its shuffle buffer holds, where its shards are open.
  // For checkpoints. Restoring throws when the state is of other data, another seed or other ranks, saying which.
  nlohmann::json state();
  void restore(const nlohmann::json& state);

  const std::vector<TensorType>& fields() const { return pipeline_.fields(); }  // of one sample of a batch
  bool streams() const { return streams_; }                                     // of shards without an index
  std::int64_t batches_per_epoch() const;  // of a whole epoch; -1 of a stream whose length is not known yet
  std::int64_t samples_per_epoch() const;  // less than the data set's size when the last batch is dropped; -1 likewise
  LoaderStats stats() const;

 private:
  struct Worker {
    std::thread thread;
    TensorList staging;  // samples before the transforms
    MakeScratch scratch;
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
  BatchSlot& slot_of(std::uint64_t number) { return *slots_[number % slots_.size()]; }
  bool ready() const;

  LoaderOptions options_;
  std::unique_ptr<BatchSource> source_;
  bool streams_ = false;
  TransformPipeline pipeline_;
  DataPosition position_;
  std::vector<std::unique_ptr<BatchSlot>> slots_;
  std::vector<Worker> workers_;

  // Batches by number since the start, number n in slot n % slots_.size(): planned, then made in parts, taken by the
  // user and given back by the call after.
  mutable std::mutex mutex_;
  std::condition_variable work_;   // for workers: a part to make or a batch to plan
  std::condition_variable ready_;  // for the user's thread: a batch is made or planning has paused
  std::uint64_t planned_ = 0;
  std::uint64_t parted_ = 0;  // the first with a part that nobody makes yet
  std::uint64_t taken_ = 0;
  std::uint64_t returned_ = 0;
  bool planning_ = false;  // a worker plans, or the user asks for the state
  bool plan_failed_ = false;
  std::int64_t record_bytes_ = 0;
  std::int64_t last_record_bytes_ = 0;
  std::atomic<bool> stopping_ = false;
  std::uint64_t failed_ = ~std::uint64_t{0};  // the first batch that cannot be made, and why
  int failed_part_ = 0;
  std::exception_ptr error_;
  LoaderStats stats_;
};

}  // namespace starling
