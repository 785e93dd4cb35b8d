#include "starling/data/datasets/dataset.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "starling/base/error.h"
#include "starling/base/file/mapped_guard.h"

namespace starling {
namespace {

Shape without_first(const Shape& shape) {
  Shape rest = shape;
  rest.erase(0);
  return rest;
}

void check_output(const Tensor& out, const Tensor& column, std::int64_t rows) {
  Shape shape = column.shape();
  shape[0] = rows;
  if (out.dtype() == column.dtype() && out.shape() == shape && out.contiguous() &&
      out.device().kind == DeviceKind::cpu) {
    return;
  }
  fail("[dataset] expected a dense {} on a CPU to gather into, got {}", to_string(TensorType{column.dtype(), shape}),
       to_string(out.type()));
}

}  // namespace

TensorDataset::TensorDataset(std::vector<Tensor> columns) : columns_(std::move(columns)) {
  check(!columns_.empty(), "[dataset] expected at least one field, got none");
  for (const auto& column : columns_) {
    check(column.rank() >= 1 && column.contiguous() && column.device().kind == DeviceKind::cpu,
          "[dataset] expected dense fields on a CPU with samples along the first axis, got {}",
          to_string(column.type()));
    check(column.size(0) == size(), "[dataset] expected fields of equally many samples, got {} and {}", size(),
          column.size(0));
  }
}

std::int64_t TensorDataset::size() const { return columns_.front().size(0); }

std::vector<TensorType> TensorDataset::fields() const {
  std::vector<TensorType> types;
  for (const auto& column : columns_) types.push_back({column.dtype(), without_first(column.shape())});
  return types;
}

void TensorDataset::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  gather_columns(rows, out, 0);
}

void TensorDataset::gather_columns(std::span<const std::int64_t> rows, std::span<const Tensor> out,
                                   std::size_t first) const {
  check(out.size() == columns_.size(), "[dataset] expected {} tensors to gather into, got {}", columns_.size(),
        out.size());
  const std::int64_t samples = size();
  for (auto row : rows) {
    if (row < 0 || row >= samples) fail("[dataset] expected samples below {}, got {}", samples, row);
  }
  for (std::size_t f = first; f < columns_.size(); ++f) {
    const Tensor& column = columns_[f];
    check_output(out[f], column, static_cast<std::int64_t>(rows.size()));
    if (rows.empty()) continue;
    const auto bytes = static_cast<std::size_t>(column.numel() / size()) * size_of(column.dtype());
    if (bytes == 0) continue;
    const auto* from = static_cast<const std::byte*>(column.raw());
    auto* to = static_cast<std::byte*>(out[f].raw());
    for (auto row : rows) {
      std::memcpy(to, from + static_cast<std::size_t>(row) * bytes, bytes);
      to += bytes;
    }
    check_mapped(from);  // a column may be a view of a file
  }
}

}  // namespace starling
