#pragma once

#include <memory>

#include "starling/data/loading/batch_source.h"
#include "starling/data/loading/stream.h"

namespace starling::data {

// Batches of a stream: planning takes records out of the shuffle buffer in order; worker threads decode them.
class StreamBatches final : public BatchSource {
 public:
  struct Options {
    std::int64_t batch = 0;
    bool drop_last = false;
    RecordStream::Options stream{};
  };
  StreamBatches(std::shared_ptr<const ShardSet> shards, const Options& options);

  std::vector<TensorType> fields() const override { return shards_->decoder().fields(); }
  std::int64_t samples_per_epoch() const override { return samples_per_epoch_; }
  std::int64_t largest_batch() const override { return options_.batch; }
  std::unique_ptr<BatchPlan> new_plan() const override;

  void plan(BatchPlan& plan, const std::atomic<bool>& stop) override;
  void make(const BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
            MakeScratch& scratch) const override;
  void release(BatchPlan& plan) const override;
  void keys(const BatchPlan& plan, std::int64_t begin, std::int64_t end, const MakeScratch& scratch,
            std::vector<SampleKey>& into) const override;
  std::string describe(const BatchPlan& plan, std::int64_t i) const override;

  void seek(DataPosition position) override;
  nlohmann::json state(std::span<const BatchPlan* const> undone, DataPosition at) const override;
  DataPosition restore(const nlohmann::json& state) override;

 private:
  void skip_to_start(RecordStream::Journal& journal, const std::atomic<bool>& stop);

  std::shared_ptr<const ShardSet> shards_;
  Options options_;
  RecordStream stream_;
  DataPosition start_{};     // target of a seek, reached by reading when the next batch is planned
  DataPosition position_{};  // position of the next plan
  std::atomic<std::int64_t> samples_per_epoch_ = -1;
};

}  // namespace starling::data
