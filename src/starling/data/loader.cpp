#include "starling/data/loader.h"

#include <algorithm>
#include <utility>

#include "starling/base/error.h"

namespace starling {

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  check(dataset_ && dataset_->size() > 0, "[loader] expected a data set with samples, got none");
  check(options.batch >= 1, "[loader] expected a batch of at least 1, got {}", options.batch);
  check(options.prefetch >= 1 && options.prefetch <= 64, "[loader] expected 1 to 64 batches to prefetch, got {}",
        options.prefetch);
  check(samples_per_epoch() > 0, "[loader] expected a batch of at most the {} samples when the last is dropped, got {}",
        dataset_->size(), options.batch);
  check_position(options.start);
  const std::int64_t rows = std::min(options.batch, dataset_->size());
  slots_.resize(static_cast<std::size_t>(options.prefetch) + 1);  // one more is in the user's hands
  for (auto& slot : slots_) {
    for (auto type : dataset_->fields()) {
      type.shape.insert(0, rows);
      slot.buffers.push_back(empty(type.shape, type.dtype));
    }
  }
  start(options.start);
}

Loader::~Loader() { stop(); }

std::int64_t Loader::samples_per_epoch() const {
  return options_.drop_last ? dataset_->size() / options_.batch * options_.batch : dataset_->size();
}

std::int64_t Loader::batches_per_epoch() const { return (samples_per_epoch() + options_.batch - 1) / options_.batch; }

void Loader::check_position(DataPosition position) const {
  check(position.epoch >= 0 && position.sample >= 0 && position.sample <= dataset_->size(),
        "[loader] expected an epoch of at least 0 and a sample of 0 to {}, got {} and {}", dataset_->size(),
        position.epoch, position.sample);
}

std::int64_t Loader::batch_size_at(std::int64_t sample) const {
  const std::int64_t left = dataset_->size() - sample;
  return options_.drop_last && left < options_.batch ? 0 : std::min(left, options_.batch);
}

const Batch* Loader::next() {
  std::unique_lock lock(mutex_);
  returned_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return taken_ < made_ || error_; });
  if (taken_ == made_) std::rethrow_exception(error_);
  const Slot& slot = slots_[taken_++ % slots_.size()];
  position_ = slot.after;
  return slot.batch.size > 0 ? &slot.batch : nullptr;
}

void Loader::seek(DataPosition position) {
  check_position(position);
  stop();
  start(position);
}

void Loader::start(DataPosition position) {
  position_ = position;
  made_ = taken_ = returned_ = 0;
  stopping_ = false;
  error_ = nullptr;
  worker_ = std::thread([this, position, rank = thread_rank()] {
    set_thread_rank(rank);
    work(position);
  });
}

void Loader::stop() {
  {
    std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void Loader::work(DataPosition position) {
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(std::min(options_.batch, dataset_->size())));
  while (true) {
    std::uint64_t number = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || made_ - returned_ < slots_.size(); });
      if (stopping_) return;
      number = made_;
    }
    Slot& slot = slots_[number % slots_.size()];
    std::exception_ptr error;
    try {
      fill(slot, position, rows);
    } catch (...) {
      error = std::current_exception();
    }
    {
      std::scoped_lock lock(mutex_);
      error_ = error;
      if (!error) ++made_;
    }
    changed_.notify_all();
    if (error) return;
    position = slot.after;
  }
}

void Loader::fill(Slot& slot, DataPosition position, std::vector<std::int64_t>& rows) {
  const std::int64_t size = batch_size_at(position.sample);
  slot.batch.size = size;
  slot.batch.begin = position;
  slot.after = size > 0 ? DataPosition{position.epoch, position.sample + size} : DataPosition{position.epoch + 1, 0};
  if (size == 0) return;
  const EpochOrder order(
      {.size = dataset_->size(), .seed = options_.seed, .epoch = position.epoch, .shuffle = options_.shuffle});
  rows.clear();
  for (std::int64_t i = 0; i < size; ++i) rows.push_back(order.sample_at(position.sample + i));
  shape_batch(slot, size);
  dataset_->gather(rows, {slot.batch.fields.data(), slot.batch.fields.size()});
}

void Loader::shape_batch(Slot& slot, std::int64_t size) {
  if (slot.shaped_size == size) return;
  slot.shaped_size = size;
  if (size == slot.buffers.front().size(0)) {
    slot.batch.fields = slot.buffers;
    return;
  }
  if (slot.views.empty() || slot.views.front().size(0) != size) {
    slot.views.clear();
    for (const auto& buffer : slot.buffers) {
      Shape shape = buffer.shape();
      shape[0] = size;
      slot.views.push_back(view_of(buffer, shape, buffer.strides(), 0));
    }
  }
  slot.batch.fields = slot.views;
}

}  // namespace starling
