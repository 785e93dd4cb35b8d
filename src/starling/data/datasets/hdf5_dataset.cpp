#include "starling/data/datasets/hdf5_dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "starling/base/error.h"
#include "starling/tensor/bytes.h"

namespace starling::data {

Hdf5Dataset::Hdf5Dataset(std::vector<std::shared_ptr<const Hdf5Array>> columns, std::size_t held) {
  check(!columns.empty(), "[hdf5] expected at least one array, got none");
  size_ = columns.front()->type().shape[0];
  for (auto& array : columns) {
    const TensorType& type = array->type();
    check(type.shape[0] == size_, "[hdf5] expected arrays of equally many samples, got {} and {}", size_,
          type.shape[0]);
    columns_.push_back({array, bytes_of(type) <= held ? read_hdf5(*array) : Tensor()});
  }
}

std::vector<TensorType> Hdf5Dataset::fields() const {
  std::vector<TensorType> types;
  for (const auto& column : columns_) {
    types.push_back(column.array->type());
    types.back().shape.erase(0);
  }
  return types;
}

void Hdf5Dataset::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  check(out.size() == columns_.size(), "[hdf5] expected {} tensors to gather into, got {}", columns_.size(),
        out.size());
  for (const auto row : rows) check(row >= 0 && row < size_, "[hdf5] expected samples below {}, got {}", size_, row);
  for (std::size_t f = 0; f < columns_.size(); ++f) {
    Shape shape = columns_[f].array->type().shape;
    shape[0] = std::ssize(rows);
    check(out[f].dtype() == columns_[f].array->type().dtype && out[f].shape() == shape && out[f].contiguous() &&
              out[f].device().kind == DeviceKind::cpu,
          "[hdf5] expected a dense {} on a CPU to gather into, got {}",
          to_string(TensorType{columns_[f].array->type().dtype, shape}), to_string(out[f].type()));
    if (out[f].numel() > 0) read_rows(columns_[f], rows, out[f]);
  }
}

void Hdf5Dataset::read_rows(const Column& column, std::span<const std::int64_t> rows, const Tensor& out) const {
  const std::size_t bytes = bytes_of(out) / rows.size();
  auto* to = static_cast<std::byte*>(out.raw());
  if (column.held.defined()) {
    const auto* from = static_cast<const std::byte*>(column.held.raw());
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::memcpy(to + i * bytes, from + static_cast<std::size_t>(rows[i]) * bytes, bytes);
    return;
  }
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rows[a] < rows[b]; });
  // Samples that follow each other in the file and in the batch are read together.
  for (std::size_t i = 0, count = 1; i < order.size(); i += count, count = 1) {
    while (i + count < order.size() && order[i + count] == order[i] + count &&
           rows[order[i + count]] == rows[order[i]] + static_cast<std::int64_t>(count)) {
      ++count;
    }
    column.array->read(rows[order[i]], static_cast<std::int64_t>(count), {to + order[i] * bytes, count * bytes});
  }
}

}  // namespace starling::data
