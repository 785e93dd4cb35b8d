#include "starling/data/loading/batch_slot.h"

#include <algorithm>
#include <utility>

#include "starling/tensor/bytes.h"

namespace starling {

TensorList rows_of(const TensorList& tensors, std::int64_t begin, std::int64_t end) {
  TensorList views;
  for (const auto& tensor : tensors) {
    Shape shape = tensor.shape();
    const std::int64_t offset = begin * tensor.strides()[0];
    shape[0] = end - begin;
    views.push_back(view_of(tensor, shape, tensor.strides(), offset));
  }
  return views;
}

BatchSlot::BatchSlot(const std::vector<TensorType>& fields, std::int64_t rows, std::unique_ptr<data::BatchPlan> plan,
                     std::shared_ptr<DeviceCopies> copies)
    : copies_(std::move(copies)), plan_(std::move(plan)) {
  for (auto type : fields) {
    type.shape.insert(0, rows);
    buffers_.push_back(copies_ ? copies_->pinned(type.shape, type.dtype) : empty(type.shape, type.dtype));
    if (copies_) twins_.push_back(empty(type.shape, type.dtype, copies_->device()));
  }
  if (copies_) {
    arrived_ = copies_->mark();
    free_to_fill_ = copies_->mark();
    free_to_fill_->set_after_programs();  // which may still read what had this memory before
  }
  full_.fields = buffers_;
  full_.placed = twins_;
  full_.size = rows;
  tail_.size = -1;
}

// Memory may be taken by others as soon as nothing is on its way any more: also the parts of a batch whose last part a
// loader that stops has not placed.
BatchSlot::~BatchSlot() {
  try {
    if (arrived_) arrived_->set_after_copies();
    if (arrived_) arrived_->wait();
  } catch (...) {  // the device has failed, and says so to whoever uses it next
  }
}

void BatchSlot::shape(int most_parts, std::int64_t least_rows) {
  claimed = done = 0;
  const std::int64_t rows = plan_->size;
  parts = rows == 0 ? 0 : static_cast<int>(std::clamp<std::int64_t>(rows / least_rows, 1, most_parts));
  if (plan_->ends_epoch) return;
  current_ = &shaped(rows);
  current_->begin = plan_->begin;
  current_->total = plan_->total;
  current_->portion = plan_->portion;
}

Batch& BatchSlot::shaped(std::int64_t size) {
  if (size == full_.size) return full_;
  if (size == tail_.size) return tail_;
  tail_.fields = rows_of(buffers_, 0, size);
  tail_.placed = rows_of(twins_, 0, size);
  tail_.size = size;
  return tail_;
}

void BatchSlot::begin() {
  if (!copies_) return;
  arrived_->wait();  // the copies of the batch before have been read from the buffers
  free_to_fill_->copies_wait();
}

void BatchSlot::place(std::int64_t begin, std::int64_t end) {
  if (!copies_) return;
  const TensorList from = rows(begin, end), to = rows_of(twins_, begin, end);
  for (std::size_t i = 0; i < from.size(); ++i)
    copies_->to_device(to[i].impl()->address(), from[i].raw(), bytes_of(from[i]));
}

void BatchSlot::placed() {
  if (copies_) arrived_->set_after_copies();
}

void BatchSlot::hand_out() {
  if (copies_) arrived_->programs_wait();
}

void BatchSlot::take_back() {
  if (copies_) free_to_fill_->set_after_programs();
}

TensorList BatchSlot::rows(std::int64_t begin, std::int64_t end) const { return rows_of(buffers_, begin, end); }

}  // namespace starling
