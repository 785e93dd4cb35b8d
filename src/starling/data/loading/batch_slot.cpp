#include "starling/data/loading/batch_slot.h"

#include <algorithm>
#include <utility>

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

BatchSlot::BatchSlot(const std::vector<TensorType>& fields, std::int64_t rows, std::unique_ptr<data::BatchPlan> plan)
    : plan_(std::move(plan)) {
  for (auto type : fields) {
    type.shape.insert(0, rows);
    buffers_.push_back(empty(type.shape, type.dtype));
  }
  full_.fields = buffers_;
  full_.size = rows;
  tail_.size = -1;
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
  tail_.size = size;
  return tail_;
}

TensorList BatchSlot::rows(std::int64_t begin, std::int64_t end) const { return rows_of(buffers_, begin, end); }

}  // namespace starling
