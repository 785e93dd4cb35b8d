#pragma once

#include <memory>
#include <optional>

#include "starling/data/datasets/dataset.h"
#include "starling/data/loading/batch_source.h"
#include "starling/data/loading/portions.h"
#include "starling/data/loading/sampler.h"

namespace starling::data {

// Batches of a map-style data set. All ranks cut the same global batches and rank r makes slice r of each: every sample
// goes to one rank per epoch, and a run may resume at any position with any number of ranks.
class IndexedBatches final : public BatchSource {
 public:
  struct Options {
    std::int64_t batch = 0;
    std::uint64_t seed = 0;
    bool shuffle = true;
    bool drop_last = false;
    int rank = 0;
    int ranks = 1;
    int groups = 1;     // groups of ranks; a batch is split over groups first, then over their members
    int shards = 0;     // > 0: a group's share is cut into this many slices, and members take whole slices
    bool deal = false;  // true: rank r makes the whole batches numbered r, r + ranks, … instead of slices
    std::shared_ptr<Portions> portions{};  // not null: makes the portions of these numbers, `ranks` of them a batch
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
  void plan_portion(BatchPlan& plan, const std::atomic<bool>& stop);
  std::int64_t batch_size_at(std::int64_t sample) const;  // 0 at the end of the epoch
  const EpochOrder& order(std::int64_t epoch);
  const nlohmann::json& marks() const;

  std::shared_ptr<const Dataset> dataset_;
  Options options_;
  std::int64_t size_;
  DataPosition position_;
  PortionGrid grid_;  // of portions from the position last sought
  std::optional<EpochOrder> order_;
  std::int64_t order_epoch_ = -1;
  mutable nlohmann::json marks_;  // fingerprint of the data set, computed on first use
};

}  // namespace starling::data
