#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "starling/data/loading/position.h"
#include "starling/data/records/record_reader.h"
#include "starling/data/transform.h"
#include "starling/tensor/tensor.h"

namespace starling::data {

// The samples of one batch. Each BatchSource derives its own plan with what make() needs.
struct BatchPlan {
  virtual ~BatchPlan() = default;

  DataPosition begin{};
  DataPosition after{};           // position of the next batch
  std::int64_t size = 0;          // samples for this rank
  std::int64_t total = 0;         // samples for all ranks together
  std::int64_t portion = -1;      // number of the portion; -1: batches are not handed out in portions
  bool ends_epoch = false;        // true: the epoch ends here and the plan has no samples
  std::int64_t record_bytes = 0;  // raw records held until the samples are made
};

// Per-thread buffers, reused from one part of a batch to the next.
struct MakeScratch {
  std::vector<std::int64_t> rows;
  Record record;
};

// Source of a loader's samples: plans batch after batch (which samples belong to it), then makes the samples.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::vector<TensorType> fields() const = 0;       // types of one sample's fields
  virtual std::int64_t samples_per_epoch() const = 0;       // over all ranks; -1: unknown until one epoch was read
  virtual std::int64_t largest_batch() const = 0;           // samples for this rank
  virtual std::unique_ptr<BatchPlan> new_plan() const = 0;  // an empty plan of the derived type

  // Plans the next batch. Called by one thread at a time, in order. Returns early once `stop` is set.
  virtual void plan(BatchPlan& plan, const std::atomic<bool>& stop) = 0;
  // Makes samples [begin, end) of a batch into out[f], which has end - begin rows. Thread-safe; parts of one batch may
  // be made at once.
  virtual void make(const BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
                    MakeScratch& scratch) const = 0;
  virtual void release(BatchPlan& plan) const { plan.record_bytes = 0; }  // frees its records
  // Random keys of samples [begin, end), which make() has just made with this scratch.
  virtual void keys(const BatchPlan& plan, std::int64_t begin, std::int64_t end, const MakeScratch& scratch,
                    std::vector<SampleKey>& into) const = 0;
  virtual std::string describe(const BatchPlan& plan, std::int64_t i) const = 0;  // for error messages

  // seek() sets where planning continues. state() is the state before the plans in `undone` (newest first; the newest
  // may have thrown), which is position `at`. Do not call while a plan is being made.
  virtual void seek(DataPosition position) = 0;
  virtual nlohmann::json state(std::span<const BatchPlan* const> undone, DataPosition at) const = 0;
  virtual DataPosition restore(const nlohmann::json& state) = 0;
};

}  // namespace starling::data
