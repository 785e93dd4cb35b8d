#include "starling/tensor/shape.h"

#include <algorithm>
#include <limits>

#include "starling/base/error.h"

namespace starling {

Shape::Shape(std::span<const std::int64_t> dims) {
  check(dims.size() <= kMaxRank, "[shape] expected rank of at most {}, got {}", kMaxRank, dims.size());
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

Shape Shape::filled(int rank, std::int64_t value) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(value);
  return shape;
}

void Shape::push_back(std::int64_t dim) {
  check(rank_ < kMaxRank, "[shape] expected rank of at most {}, got {}", kMaxRank, rank_ + 1);
  dims_[static_cast<std::size_t>(rank_++)] = dim;
}

void Shape::erase(int i) {
  for (int k = i; k + 1 < rank_; ++k) (*this)[k] = (*this)[k + 1];
  dims_[static_cast<std::size_t>(--rank_)] = 0;
}

void Shape::insert(int i, std::int64_t dim) {
  push_back(dim);
  for (int k = rank_ - 1; k > i; --k) (*this)[k] = (*this)[k - 1];
  (*this)[i] = dim;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

bool is_contiguous(const Shape& shape, const Shape& strides) {
  std::int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

int normalize_axis(std::int64_t axis, int rank, const char* who) {
  check(axis >= -rank && axis < rank, "[{}] expected an axis in [{}, {}), got {}", who, -rank, rank, axis);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* who) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const auto da = i <= a.rank() ? a[a.rank() - i] : 1;
    const auto db = i <= b.rank() ? b[b.rank() - i] : 1;
    check(da == db || da == 1 || db == 1, "[{}] expected shapes that broadcast, got {} and {}", who, to_string(a),
          to_string(b));
    out[rank - i] = da == 1 ? db : da;
  }
  return out;
}

void check_size(const Shape& shape, std::size_t element_size, const char* who) {
  std::int64_t bytes = static_cast<std::int64_t>(element_size);
  for (auto dim : shape) {
    // An explicit branch, not check(), whose arguments would be evaluated for every new tensor.
    if (dim < 0) [[unlikely]]
      fail("[{}] expected sizes of at least 0, got {}", who, to_string(shape));
    if (dim > 0 && bytes > std::numeric_limits<std::int64_t>::max() / dim) [[unlikely]]
      fail("[{}] expected a tensor that can be addressed, got {} elements of {} bytes", who, to_string(shape),
           element_size);
    bytes *= std::max<std::int64_t>(dim, 1);
  }
}

}  // namespace starling
