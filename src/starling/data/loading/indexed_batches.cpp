#include "starling/data/loading/indexed_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "starling/base/error.h"
#include "starling/data/loading/data_marks.h"

namespace starling::data {
namespace {

struct IndexedPlan final : BatchPlan {
  std::optional<EpochOrder> order;
  std::int64_t first = 0;  // position in the epoch of this rank's first sample
};

const IndexedPlan& mine(const BatchPlan& plan) { return static_cast<const IndexedPlan&>(plan); }

}  // namespace

IndexedBatches::IndexedBatches(std::shared_ptr<const Dataset> dataset, const Options& options)
    : dataset_(std::move(dataset)), options_(options), size_(dataset_ ? dataset_->size() : 0) {
  check(size_ > 0, "[loader] expected a data set with samples, got none");
  check(samples_per_epoch() > 0, "[loader] expected a batch of at most the {} samples when the last is dropped, got {}",
        size_, options.batch);
}

std::int64_t IndexedBatches::samples_per_epoch() const {
  return options_.drop_last ? size_ / options_.batch * options_.batch : size_;
}

std::int64_t IndexedBatches::largest_batch() const {
  const std::int64_t batch = std::min(options_.batch, size_);
  if (options_.deal) return batch;
  const std::int64_t members = options_.ranks / options_.groups;
  const std::int64_t group = (batch + options_.groups - 1) / options_.groups;
  if (options_.shards == 0) return (group + members - 1) / members;
  const std::int64_t shards = (options_.shards + members - 1) / members;
  return std::min(group, (group * shards + options_.shards - 1) / options_.shards);
}

namespace {

// First row of member `member` of `members` among `total` rows.
std::int64_t first_of(std::int64_t total, std::int64_t member, std::int64_t members, std::int64_t shards) {
  if (shards == 0) return total * member / members;
  return total * (shards * member / members) / shards;
}

}  // namespace

// First row and number of rows of this rank's part of a batch of `total` rows.
IndexedBatches::Part IndexedBatches::part_of(std::int64_t total) const {
  if (options_.deal) return {0, total};
  const std::int64_t members = options_.ranks / options_.groups;
  const std::int64_t group = options_.rank / members, member = options_.rank % members;
  const std::int64_t begin = total * group / options_.groups;
  const std::int64_t size = total * (group + 1) / options_.groups - begin;
  const std::int64_t from = first_of(size, member, members, options_.shards);
  return {begin + from, first_of(size, member + 1, members, options_.shards) - from};
}

std::unique_ptr<BatchPlan> IndexedBatches::new_plan() const { return std::make_unique<IndexedPlan>(); }

std::int64_t IndexedBatches::batch_size_at(std::int64_t sample) const {
  const std::int64_t left = size_ - sample;
  return options_.drop_last && left < options_.batch ? 0 : std::min(left, options_.batch);
}

const EpochOrder& IndexedBatches::order(std::int64_t epoch) {
  if (order_epoch_ != epoch) {
    order_.emplace(
        EpochOrder::Options{.size = size_, .seed = options_.seed, .epoch = epoch, .shuffle = options_.shuffle});
    order_epoch_ = epoch;
  }
  return *order_;
}

// Without a portion the plan is empty, like the end of an epoch.
void IndexedBatches::plan_portion(BatchPlan& plan, const std::atomic<bool>& stop) {
  auto& to = static_cast<IndexedPlan&>(plan);
  const auto number = options_.portions->next(stop);
  to.ends_epoch = !number;
  to.portion = number.value_or(-1);
  to.size = to.total = 0;
  to.begin = to.after = position_;
  if (!number) return;
  const PortionGrid::Span span = grid_.at(*number);
  to.begin = span.batch;
  to.total = span.total;
  to.size = span.size;
  to.first = span.batch.sample + span.first;
  to.after = {span.batch.epoch, span.batch.sample + span.total};
  to.order = order(span.batch.epoch);
}

void IndexedBatches::plan(BatchPlan& plan, const std::atomic<bool>& stop) {
  if (options_.portions) return plan_portion(plan, stop);
  auto& to = static_cast<IndexedPlan&>(plan);
  std::int64_t total = batch_size_at(position_.sample);
  while (options_.deal && total > 0 && position_.sample / options_.batch % options_.ranks != options_.rank) {
    position_.sample += total;
    total = batch_size_at(position_.sample);
  }
  const Part part = part_of(total);
  to.begin = position_;
  to.total = total;
  to.ends_epoch = total == 0;
  to.size = part.size;
  to.first = position_.sample + part.begin;
  to.after = total > 0 ? DataPosition{position_.epoch, position_.sample + total} : DataPosition{position_.epoch + 1, 0};
  to.order = order(position_.epoch);
  position_ = to.after;
}

void IndexedBatches::make(const BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
                          MakeScratch& scratch) const {
  const auto& from = mine(plan);
  scratch.rows.resize(static_cast<std::size_t>(end - begin));
  from.order->samples_at(from.first + begin, scratch.rows);
  dataset_->gather(scratch.rows, out);
}

void IndexedBatches::keys(const BatchPlan& plan, std::int64_t /*begin*/, std::int64_t /*end*/,
                          const MakeScratch& scratch, std::vector<SampleKey>& into) const {
  into.clear();
  for (auto row : scratch.rows) into.push_back({.seed = options_.seed, .epoch = plan.begin.epoch, .sample = row});
}

std::string IndexedBatches::describe(const BatchPlan& plan, std::int64_t i) const {
  const auto& from = mine(plan);
  return fmt::format("sample {} (position {} of epoch {})", from.order->sample_at(from.first + i), from.first + i,
                     from.begin.epoch);
}

void IndexedBatches::seek(DataPosition position) {
  check(position.epoch >= 0 && position.sample >= 0 && position.sample <= size_,
        "[loader] expected an epoch of at least 0 and a sample of 0 to {}, got {} and {}", size_, position.epoch,
        position.sample);
  position_ = position;
  if (!options_.portions) return;
  grid_ = PortionGrid(
      {.samples = samples_per_epoch(), .batch = options_.batch, .pieces = options_.ranks, .start = position});
}

nlohmann::json IndexedBatches::state(std::span<const BatchPlan* const> /*undone*/, DataPosition at) const {
  return {{"epoch", at.epoch},     {"sample", at.sample},         {"samples", size_},
          {"seed", options_.seed}, {"shuffle", options_.shuffle}, {"data", marks()}};
}

const nlohmann::json& IndexedBatches::marks() const {
  if (marks_.is_null()) marks_ = marks_of(*dataset_);
  return marks_;
}

DataPosition IndexedBatches::restore(const nlohmann::json& state) {
  const auto samples = state.at("samples").get<std::int64_t>();
  check(samples == size_, "[loader] expected to resume with the {} samples of the saved state, got a data set of {}",
        samples, size_);
  const auto seed = state.at("seed").get<std::uint64_t>();
  check(seed == options_.seed, "[loader] expected to resume with seed {} of the saved state, got {}", seed,
        options_.seed);
  const auto shuffle = state.at("shuffle").get<bool>();
  check(shuffle == options_.shuffle, "[loader] expected to resume with shuffle {} of the saved state, got {}", shuffle,
        options_.shuffle);
  if (state.contains("data")) {  // absent in states of earlier versions
    const std::string difference = difference_of_marks(state.at("data"), marks());
    check(difference.empty(), "[loader] expected to resume with the data of the saved state, got {}", difference);
  }
  const DataPosition position{state.at("epoch").get<std::int64_t>(), state.at("sample").get<std::int64_t>()};
  seek(position);
  return position;
}

}  // namespace starling::data
