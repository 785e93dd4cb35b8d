#include "starling/data/loading/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "starling/base/clock.h"
#include "starling/base/error.h"
#include "starling/base/result.h"
#include "starling/base/thread/make_thread.h"
#include "starling/base/thread/stop_request.h"
#include "starling/data/loading/indexed_batches.h"
#include "starling/data/loading/sample_error.h"
#include "starling/data/loading/stream_batches.h"
#include "starling/data/transform_scratch.h"
#include "starling/tensor/bytes.h"

namespace starling {
namespace {

constexpr std::int64_t kLeastRows = 8;  // fewer rows per part are not worth another thread
constexpr std::chrono::milliseconds kStopEvery{20};

void check_options(const LoaderOptions& options) {
  check(options.batch >= 1, "[loader] expected a batch of at least 1, got {}", options.batch);
  check(options.workers >= 1 && options.workers <= 256, "[loader] expected 1 to 256 workers, got {}", options.workers);
  check(options.prefetch >= 1 && options.prefetch <= 64, "[loader] expected 1 to 64 batches to prefetch, got {}",
        options.prefetch);
  check(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks,
        "[loader] expected a rank below the number of ranks, got {} of {}", options.rank, options.ranks);
  check(options.groups >= 1 && options.ranks % options.groups == 0,
        "[loader] expected ranks in groups of equal size, got {} ranks in {} groups", options.ranks, options.groups);
  check(options.shards == 0 || options.shards >= options.ranks / options.groups,
        "[loader] expected at least as many logical shards as ranks of a group, got {} for {}", options.shards,
        options.ranks / options.groups);
}

std::unique_ptr<data::BatchSource> indexed(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  check_options(options);
  return std::make_unique<data::IndexedBatches>(std::move(dataset),
                                                data::IndexedBatches::Options{.batch = options.batch,
                                                                              .seed = options.seed,
                                                                              .shuffle = options.shuffle,
                                                                              .drop_last = options.drop_last,
                                                                              .rank = options.rank,
                                                                              .ranks = options.ranks,
                                                                              .groups = options.groups,
                                                                              .shards = options.shards,
                                                                              .deal = options.deal,
                                                                              .portions = options.portions});
}

std::unique_ptr<data::BatchSource> streamed(data::RecordShards shards, StreamOptions stream,
                                            const LoaderOptions& options) {
  check_options(options);
  if (!options.shuffle) {
    stream.shuffle_shards = false;
    stream.shuffle_samples = stream.interleave = 1;
  }
  return std::make_unique<data::StreamBatches>(
      std::make_shared<const data::ShardSet>(std::move(shards)),
      data::StreamBatches::Options{
          .batch = options.batch,
          .drop_last = options.drop_last,
          .stream = {.stream = stream, .seed = options.seed, .rank = options.rank, .ranks = options.ranks}});
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : options_(options), source_(indexed(std::move(dataset), options)) {
  prepare();
}

Loader::Loader(data::RecordShards shards, const StreamOptions& stream, const LoaderOptions& options)
    : options_(options), source_(streamed(std::move(shards), stream, options)), streams_(true) {
  prepare();
}

Loader::Loader(std::unique_ptr<data::BatchSource> source, const LoaderOptions& options)
    : options_(options), source_(std::move(source)) {
  check(source_ != nullptr, "[loader] expected a source of batches, got none");
  check_options(options);
  prepare();
}

Loader::~Loader() { stop(); }

void Loader::prepare() {
  const auto raw = source_->fields();
  pipeline_ = TransformPipeline(options_.transforms, raw);
  const std::int64_t rows = source_->largest_batch();
  const std::int64_t share = (rows + options_.workers - 1) / options_.workers;
  const std::int64_t part_rows = pipeline_.mixes() ? rows : std::min(rows, std::max(share, 2 * kLeastRows));
  const std::int64_t each =
      part_rows * static_cast<std::int64_t>(bytes_of(raw)) + data::scratch_bytes(options_.transforms, raw, part_rows);
  const std::int64_t staging = pipeline_.empty() ? 0 : options_.workers * each;
  const std::int64_t batch = std::max<std::int64_t>(rows * static_cast<std::int64_t>(bytes_of(pipeline_.fields())), 1);
  const std::int64_t fit = (options_.prefetch_bytes - staging) / batch;
  check(fit >= 2, "[loader] expected prefetch_bytes of at least {} for two batches of {}, got {}", staging + 2 * batch,
        rows, options_.prefetch_bytes);
  source_->seek(options_.start);
  const auto count = std::min<std::int64_t>(fit, options_.prefetch + 1);  // one more for the batch in the user's hands
  for (std::int64_t i = 0; i < count; ++i) {
    slots_.push_back(std::make_unique<BatchSlot>(pipeline_.fields(), rows, source_->new_plan(), options_.copies));
  }
  workers_.resize(static_cast<std::size_t>(options_.workers));
  for (auto& worker : workers_) {
    worker.scratch.rows.reserve(static_cast<std::size_t>(part_rows));
    if (pipeline_.empty()) continue;
    for (auto type : raw) {
      type.shape.insert(0, part_rows);
      worker.staging.push_back(empty(type.shape, type.dtype));
    }
  }
  position_ = options_.start;
  start();
}

std::int64_t Loader::samples_per_epoch() const { return source_->samples_per_epoch(); }

std::int64_t Loader::batches_per_epoch() const {
  const std::int64_t samples = samples_per_epoch();
  return samples < 0 ? -1 : (samples + options_.batch - 1) / options_.batch;
}

LoaderStats Loader::stats() const {
  std::scoped_lock lock(mutex_);
  return stats_;
}

// True if next() can return. A failed batch is ready once all its parts have ended, so that its first error is known.
bool Loader::ready() const {
  if (taken_ == planned_) return taken_ == failed_;
  const BatchSlot& slot = *slots_[taken_ % slots_.size()];
  return slot.done == slot.parts;
}

// A source may wait as long as it likes, and this thread be asked to stop meanwhile.
void Loader::wait_until_ready(std::unique_lock<std::mutex>& lock) {
  if (stop_request() == nullptr) return ready_.wait(lock, [&] { return ready(); });
  while (!ready_.wait_for(lock, kStopEvery, [&] { return ready(); })) check_stop_request();
}

// The batch that the user had goes back to the workers.
void Loader::take_back() {
  if (returned_ == taken_) return;
  slot_of(taken_ - 1).take_back();
  returned_ = taken_;
  work_.notify_one();
}

const Batch* Loader::next() {
  std::unique_lock lock(mutex_);
  take_back();
  if (!ready()) {
    const auto begin = SteadyClock::now();
    wait_until_ready(lock);
    stats_.waited_s += seconds_since(begin);
  }
  if (taken_ == failed_) std::rethrow_exception(error_);
  BatchSlot& slot = slot_of(taken_++);
  position_ = slot.plan().after;
  if (slot.plan().ends_epoch) return nullptr;
  slot.hand_out();
  ++stats_.batches;
  stats_.samples += slot.batch().size;
  stats_.bytes += slot.batch().size * static_cast<std::int64_t>(bytes_of(fields()));
  return &slot.batch();
}

void Loader::seek(data::DataPosition position) {
  const nlohmann::json before = state();
  stop();
  try {
    source_->seek(position);
  } catch (...) {
    go_back(before);
    throw;
  }
  position_ = position;
  start();
}

nlohmann::json Loader::state() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return !planning_; });
  planning_ = true;  // blocks planning; workers go on making samples
  std::vector<const data::BatchPlan*> undone;
  for (std::uint64_t number = planned_ + (plan_failed_ ? 1 : 0); number > taken_; --number) {
    undone.push_back(&slot_of(number - 1).plan());
  }
  lock.unlock();
  nlohmann::json state;
  std::exception_ptr error;
  try {
    state = source_->state(undone, position_);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  planning_ = false;
  work_.notify_all();
  if (error) std::rethrow_exception(error);
  return state;
}

void Loader::restore(const nlohmann::json& state) {
  const nlohmann::json before = this->state();
  stop();
  try {
    position_ = source_->restore(state);
  } catch (const std::exception& error) {
    go_back(before);
    if (dynamic_cast<const nlohmann::json::exception*>(&error) == nullptr) throw;
    fail("[loader] expected the saved state of a loader of this kind, got: {}", error.what());
  }
  start();
}

// Restores the state before a refused call, so that the caller may catch the error and continue.
void Loader::go_back(const nlohmann::json& before) {
  try {
    source_->restore(before);
    start();
  } catch (...) {
    planned_ = parted_ = taken_ = returned_ = failed_ = 0;
    plan_failed_ = false;  // the plans belong to a stream that could not be restored
    error_ = std::current_exception();
  }
}

void Loader::start() {
  if (returned_ != taken_) slot_of(taken_ - 1).take_back();
  planned_ = parted_ = taken_ = returned_ = 0;
  planning_ = plan_failed_ = false;
  record_bytes_ = last_record_bytes_ = 0;
  stopping_ = false;
  failed_ = ~std::uint64_t{0};
  error_ = nullptr;
  try {
    for (auto& worker : workers_) {
      worker.thread = make_thread(thread_context().inherited(), [this, &worker] { work(worker); });
    }
  } catch (const std::exception& error) {
    stop();
    planned_ = parted_ = taken_ = returned_ = failed_ = 0;
    plan_failed_ = false;
    error_ = std::make_exception_ptr(
        Error(fmt::format("[loader] expected to start {} threads, got: {}", workers_.size(), error.what())));
    std::rethrow_exception(error_);
  }
}

void Loader::stop() {
  {
    std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (auto& worker : workers_) {
    if (worker.thread.joinable()) worker.thread.join();
  }
  for (auto& slot : slots_) source_->release(slot->plan());
}

bool Loader::may_plan() const {
  if (planning_ || failed_ <= planned_ || planned_ - returned_ >= slots_.size()) return false;
  return record_bytes_ == 0 || record_bytes_ + last_record_bytes_ <= options_.prefetch_bytes;
}

void Loader::work(Worker& worker) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (parted_ < planned_) {
      make_part(lock, worker);
    } else if (may_plan()) {
      plan_batch(lock);
    } else {
      work_.wait(lock);
    }
  }
}

void Loader::plan_batch(std::unique_lock<std::mutex>& lock) {
  planning_ = true;
  const std::uint64_t number = planned_;
  BatchSlot& slot = slot_of(number);
  lock.unlock();
  const auto begin = SteadyClock::now();
  std::exception_ptr error;
  try {
    source_->plan(slot.plan(), stopping_);
    slot.begin();
    if (!stopping_) slot.shape(pipeline_.mixes() ? 1 : options_.workers, kLeastRows);
  } catch (...) {
    error = std::current_exception();
  }
  const double seconds = seconds_since(begin);
  lock.lock();
  stats_.made_s += seconds;
  planning_ = false;
  if (error) {
    plan_failed_ = true;
    note_failure(number, 0, error);
  } else if (!stopping_) {
    ++planned_;
    last_record_bytes_ = slot.plan().record_bytes;
    record_bytes_ += last_record_bytes_;
    if (slot.parts == 0 && parted_ == number) skip_to_parts();
    if (slot.parts > 1) {
      work_.notify_all();
    } else if (may_plan()) {
      work_.notify_one();
    }
  }
  ready_.notify_one();
}

// Skips batches whose parts are all claimed, and those without samples for this rank.
void Loader::skip_to_parts() {
  while (parted_ < planned_ && slot_of(parted_).claimed == slot_of(parted_).parts) ++parted_;
}

void Loader::make_part(std::unique_lock<std::mutex>& lock, Worker& worker) {
  const std::uint64_t number = parted_;
  BatchSlot& slot = slot_of(number);
  const int part = slot.claimed++;
  skip_to_parts();
  const bool wanted = number < failed_ || (number == failed_ && part < failed_part_);
  if (wanted) {
    lock.unlock();
    const auto begin = SteadyClock::now();
    std::exception_ptr error;
    try {
      make_rows_or_tell(slot, slot.part_begin(part), slot.part_begin(part + 1), worker);
      slot.place(slot.part_begin(part), slot.part_begin(part + 1));
    } catch (...) {
      error = std::current_exception();
    }
    const double seconds = seconds_since(begin);
    lock.lock();
    stats_.made_s += seconds;
    if (error) note_failure(number, part, error);
  }
  if (slot.done + 1 == slot.parts) {
    try {
      slot.placed();
    } catch (...) {
      note_failure(number, part, std::current_exception());
    }
  }
  if (++slot.done < slot.parts) return;
  record_bytes_ -= slot.plan().record_bytes;
  source_->release(slot.plan());
  if (number == taken_) ready_.notify_one();
  work_.notify_one();  // there may be room for another plan now
}

void Loader::note_failure(std::uint64_t number, int part, std::exception_ptr error) {
  if (number > failed_ || (number == failed_ && part > failed_part_)) return;
  failed_ = number;
  failed_part_ = part;
  error_ = std::move(error);
}

void Loader::make_rows(BatchSlot& slot, std::int64_t begin, std::int64_t end, Worker& worker) const {
  const TensorList out = slot.rows(begin, end);
  if (pipeline_.empty()) {
    source_->make(slot.plan(), begin, end, {out.data(), out.size()}, worker.scratch);
    return;
  }
  const TensorList raw = rows_of(worker.staging, 0, end - begin);
  source_->make(slot.plan(), begin, end, {raw.data(), raw.size()}, worker.scratch);
  source_->keys(slot.plan(), begin, end, worker.scratch, worker.keys);
  pipeline_.apply({raw.data(), raw.size()}, {out.data(), out.size()}, worker.keys, worker.transforms);
}

void Loader::make_rows_or_tell(BatchSlot& slot, std::int64_t begin, std::int64_t end, Worker& worker) const {
  try {
    make_rows(slot, begin, end, worker);
  } catch (const std::exception& error) {
    tell_sample(slot, begin, end, worker, data::message_of(error));
  }
}

// Throws naming the sample that cannot be made, found by making them one by one.
void Loader::tell_sample(BatchSlot& slot, std::int64_t begin, std::int64_t end, Worker& worker,
                         const std::string& message) const {
  for (std::int64_t i = begin; i < end; ++i) {
    try {
      if (pipeline_.mixes()) {
        const TensorList raw = rows_of(worker.staging, 0, 1);
        source_->make(slot.plan(), i, i + 1, {raw.data(), raw.size()}, worker.scratch);
      } else {
        make_rows(slot, i, i + 1, worker);
      }
    } catch (const std::exception& error) {
      fail("[loader] {}: {}", source_->describe(slot.plan(), i), data::message_of(error));
    }
  }
  fail("[loader] {}, or one of the {} after it: {}", source_->describe(slot.plan(), begin), end - begin - 1, message);
}

}  // namespace starling
