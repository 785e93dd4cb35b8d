#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "starling/data/dataset.h"
#include "starling/data/sampler.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Where a run stands in its data; with the seed, all that resuming needs.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // samples of the epoch handed out so far
  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

struct LoaderOptions {
  std::int64_t batch = 0;  // samples in a batch over all workers together
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;  // false: the last batch of an epoch is smaller
  int prefetch = 2;        // batches made ahead
  DataPosition start{};
};

struct Batch {
  TensorList fields;  // [size, …] each, dense on a CPU
  std::int64_t size = 0;
  DataPosition begin{};  // of its first sample
};

// Makes batches ahead on one thread of its own, into buffers that are used over and over: no allocation per batch once
// all buffers have been round. Use from one thread.
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, or null where an epoch ends (the call after that begins the next epoch). Blocks until it is made.
  // The batch and the memory of its tensors are valid until the next call of next or seek. Throws what the data set
  // threw.
  const Batch* next();

  // Where the next batch begins. Starting a loader there, of whatever batch size, goes on with exactly the next sample.
  DataPosition position() const { return position_; }
  void seek(DataPosition position);

  std::int64_t batches_per_epoch() const;  // of a whole epoch
  std::int64_t samples_per_epoch() const;  // less than the data set's size when the last batch is dropped

 private:
  struct Slot {
    TensorList buffers;  // full size
    TensorList views;    // shorter ones on them, kept for the next tail of the same size
    Batch batch;
    std::int64_t shaped_size = -1;  // the size that batch.fields has now
    DataPosition after;             // where the batch that follows begins
  };

  void check_position(DataPosition position) const;
  std::int64_t batch_size_at(std::int64_t sample) const;  // 0 at the end of the epoch
  void start(DataPosition position);
  void stop();
  void work(DataPosition position);
  void fill(Slot& slot, DataPosition position, std::vector<std::int64_t>& rows);
  static void shape_batch(Slot& slot, std::int64_t size);

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  DataPosition position_;
  std::vector<Slot> slots_;

  // Batches made, given to the user, and given back; number n lives in slot n % slots_.size().
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t made_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t returned_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread worker_;
};

}  // namespace starling
