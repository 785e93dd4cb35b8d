#pragma once

#include <memory>
#include <optional>

#include "starling/data/batch_source.h"
#include "starling/data/dataset.h"
#include "starling/data/sampler.h"

namespace starling {

// Batches of a data set that can be asked by number. All ranks cut the same global batches: rank r makes the r-th of
// `ranks` slices of each, so that an epoch gives every sample to one rank, and any number of ranks goes on from any
// position.
class IndexedBatches final : public BatchSource {
 public:
  struct Options {
    std::int64_t batch = 0;
    std::uint64_t seed = 0;
    bool shuffle = true;
    bool drop_last = false;
    int rank = 0;
    int ranks = 1;
    int groups = 1;     // that share a batch before their members do
    int shards = 0;     // > 0: members take whole ones of so many slices
    bool deal = false;  // whole batches in turn instead: rank r makes those numbered r, r + ranks, …
  };
  IndexedBatches(std::shared_ptr<const Dataset> dataset, const Options& options);

  std::vector<TensorType> fields() const override { return dataset_->fields(); }
  std::int64_t samples_per_epoch() const override;
  std::int64_t largest_batch() const override;
  std::unique_ptr<BatchPlan> new_plan() const override;

  void plan(BatchPlan& plan, const std::atomic<bool>& stop) override;
  void make(const BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
            MakeScratch& scratch) const override;
  void keys(const BatchPlan& plan, std::int64_t begin, std::int64_t end, const MakeScratch& scratch,
            std::vector<SampleKey>& into) const override;
  std::string describe(const BatchPlan& plan, std::int64_t i) const override;

  void seek(DataPosition position) override;
  nlohmann::json state(std::span<const BatchPlan* const> undone, DataPosition at) const override;
  DataPosition restore(const nlohmann::json& state) override;

 private:
  struct Part {
    std::int64_t begin, size;
  };
  Part part_of(std::int64_t total) const;
  std::int64_t batch_size_at(std::int64_t sample) const;  // 0 at the end of the epoch
  const EpochOrder& order(std::int64_t epoch);
  const nlohmann::json& marks() const;

  std::shared_ptr<const Dataset> dataset_;
  Options options_;
  std::int64_t size_;
  DataPosition position_;
  std::optional<EpochOrder> order_;
  std::int64_t order_epoch_ = -1;
  mutable nlohmann::json marks_;  // of the data set, once they were asked for
};

}  // namespace starling
