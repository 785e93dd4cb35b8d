#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "starling/data/position.h"
#include "starling/data/record_reader.h"
#include "starling/data/transform.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Which samples one batch has. Kinds of sources add what they need to make them.
struct BatchPlan {
  virtual ~BatchPlan() = default;

  DataPosition begin{};
  DataPosition after{};           // where the batch that follows begins
  std::int64_t size = 0;          // samples for this rank
  std::int64_t total = 0;         // samples for all ranks together
  bool ends_epoch = false;        // no batch, the epoch ends here
  std::int64_t record_bytes = 0;  // memory that waits in the plan for the samples to be made
};

// What a thread keeps from one portion of a batch to the next.
struct MakeScratch {
  std::vector<std::int64_t> rows;
  Record record;
};

// Where a loader's samples come from: decides batch after batch which samples it has, and makes them.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::vector<TensorType> fields() const = 0;       // of one sample
  virtual std::int64_t samples_per_epoch() const = 0;       // over all ranks; -1: not known before an epoch is through
  virtual std::int64_t largest_batch() const = 0;           // samples for this rank
  virtual std::unique_ptr<BatchPlan> new_plan() const = 0;  // of its kind

  // Decides the next batch. One thread at a time, batch after batch. Returns early once `stop` is set.
  virtual void plan(BatchPlan& plan, const std::atomic<bool>& stop) = 0;
  // Makes samples [begin, end) of a batch: out[f] has end - begin of them. Any thread; portions of one batch at once.
  virtual void make(const BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
                    MakeScratch& scratch) const = 0;
  virtual void release(BatchPlan& plan) const { plan.record_bytes = 0; }  // all samples of the batch are made
  // Of the samples that `make` has just made with this scratch.
  virtual void keys(const BatchPlan& plan, std::int64_t begin, std::int64_t end, const MakeScratch& scratch,
                    std::vector<SampleKey>& into) const = 0;
  virtual std::string describe(const BatchPlan& plan, std::int64_t i) const = 0;  // sample i of a batch, for messages

  // Where the batches go on from; and where they stood before the plans given, newest first (the last of them may have
  // thrown), which is position `at`. Not while a plan is being made.
  virtual void seek(DataPosition position) = 0;
  virtual nlohmann::json state(std::span<const BatchPlan* const> undone, DataPosition at) const = 0;
  virtual DataPosition restore(const nlohmann::json& state) = 0;
};

}  // namespace starling
