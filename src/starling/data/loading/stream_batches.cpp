#include "starling/data/loading/stream_batches.h"

#include <fmt/format.h>

#include <utility>

#include "starling/base/error.h"

namespace starling::data {
namespace {

struct StreamPlan final : BatchPlan {
  std::vector<PackedRecord> records;  // released once all samples are made
  std::vector<RecordRef> refs;
  RecordStream::Journal journal;
};

StreamPlan& mine(BatchPlan& plan) { return static_cast<StreamPlan&>(plan); }
const StreamPlan& mine(const BatchPlan& plan) { return static_cast<const StreamPlan&>(plan); }

// One sample of a batch for the decoder, without the batch axis.
TensorList sample_of(std::span<const Tensor> out, std::int64_t row) {
  TensorList sample;
  for (const auto& tensor : out) {
    Shape shape = tensor.shape(), strides = tensor.strides();
    shape.erase(0);
    strides.erase(0);
    sample.push_back(view_of(tensor, shape, strides, row * tensor.strides()[0]));
  }
  return sample;
}

}  // namespace

StreamBatches::StreamBatches(std::shared_ptr<const ShardSet> shards, const Options& options)
    : shards_(std::move(shards)), options_(options), stream_(shards_, options.stream) {}

std::unique_ptr<BatchPlan> StreamBatches::new_plan() const {
  auto plan = std::make_unique<StreamPlan>();
  plan->records.resize(static_cast<std::size_t>(options_.batch));
  plan->refs.resize(static_cast<std::size_t>(options_.batch));
  return plan;
}

// Seeks by reading and discarding the epoch up to start_.
void StreamBatches::skip_to_start(RecordStream::Journal& journal, const std::atomic<bool>& stop) {
  if (position_ == start_) return;
  PackedRecord record;
  RecordRef ref;
  while (position_.sample < start_.sample) {
    stream_.mark(journal);
    const bool more = stream_.next(record, ref, journal, stop);
    if (stop) return;
    if (!more) {
      fail("[loader] expected at least {} samples in epoch {} of the stream, got {}", start_.sample, start_.epoch,
           position_.sample);
    }
    ++position_.sample;
  }
}

void StreamBatches::plan(BatchPlan& plan, const std::atomic<bool>& stop) {
  auto& to = mine(plan);
  stream_.mark(to.journal);
  skip_to_start(to.journal, stop);
  stream_.mark(to.journal);
  to.begin = position_;
  to.size = to.record_bytes = 0;
  while (to.size < options_.batch && !stop) {
    const auto i = static_cast<std::size_t>(to.size);
    if (!stream_.next(to.records[i], to.refs[i], to.journal, stop)) break;
    to.record_bytes += to.records[i].held_bytes();
    ++to.size;
  }
  if (options_.drop_last && to.size < options_.batch) {
    release(plan);
    to.size = 0;
  }
  to.total = to.size;
  to.ends_epoch = to.size == 0;
  if (to.size > 0) {
    to.after = {to.begin.epoch, to.begin.sample + to.size};
  } else if (!stop) {
    if (to.begin.sample == 0 && options_.stream.ranks == 1) {  // with several ranks, one may have empty shards
      fail("[loader] expected at least {} samples in the shards, got {}", options_.drop_last ? options_.batch : 1,
           stream_.emitted());
    }
    samples_per_epoch_ = to.begin.sample;
    to.after = {to.begin.epoch + 1, 0};
    stream_.begin_epoch(to.after.epoch);
  }
  position_ = start_ = to.after;
}

void StreamBatches::make(const BatchPlan& plan, std::int64_t begin, std::int64_t end, std::span<const Tensor> out,
                         MakeScratch& scratch) const {
  const auto& from = mine(plan);
  for (std::int64_t i = begin; i < end; ++i) {
    const auto at = static_cast<std::size_t>(i);
    from.records[at].unpack(scratch.record);
    scratch.record.offset = from.refs[at].offset;
    const TensorList sample = sample_of(out, i - begin);
    shards_->decoder().decode(scratch.record, shards_->name(from.refs[at].shard), {sample.data(), sample.size()});
  }
}

void StreamBatches::release(BatchPlan& plan) const {
  for (auto& record : mine(plan).records) record.release();
  plan.record_bytes = 0;
}

void StreamBatches::keys(const BatchPlan& plan, std::int64_t begin, std::int64_t end, const MakeScratch& /*scratch*/,
                         std::vector<SampleKey>& into) const {
  const auto& stream = options_.stream;
  into.clear();
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t place = (plan.begin.sample + i) * stream.ranks + stream.rank;
    into.push_back({.seed = stream.seed, .epoch = plan.begin.epoch, .sample = place});
  }
}

std::string StreamBatches::describe(const BatchPlan& plan, std::int64_t i) const {
  return fmt::format("sample {} of epoch {} ({})", plan.begin.sample + i, plan.begin.epoch,
                     shards_->describe(mine(plan).refs[static_cast<std::size_t>(i)]));
}

void StreamBatches::seek(DataPosition position) {
  check(position.epoch >= 0 && position.sample >= 0,
        "[loader] expected an epoch and a sample of at least 0, got {} and {}", position.epoch, position.sample);
  stream_.begin_epoch(position.epoch);
  start_ = position;
  position_ = {position.epoch, 0};
}

nlohmann::json StreamBatches::state(std::span<const BatchPlan* const> undone, DataPosition at) const {
  std::vector<const RecordStream::Journal*> journals;
  for (const auto* plan : undone) journals.push_back(&mine(*plan).journal);
  return {{"epoch", at.epoch}, {"sample", at.sample}, {"stream", stream_.state(journals)}};
}

DataPosition StreamBatches::restore(const nlohmann::json& state) {
  const DataPosition position{state.at("epoch").get<std::int64_t>(), state.at("sample").get<std::int64_t>()};
  stream_.restore(state.at("stream"));
  check(stream_.epoch() == position.epoch && stream_.emitted() <= position.sample,
        "[loader] expected a stream that stands at sample {} of epoch {} or before, got one at {} of {}",
        position.sample, position.epoch, stream_.emitted(), stream_.epoch());
  start_ = position;
  position_ = {position.epoch, stream_.emitted()};  // behind start_ if saved during a seek
  return position;
}

}  // namespace starling::data
