#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace starling {

inline constexpr int kMaxRank = 8;

// Up to eight 64-bit integers stored inline: the sizes of a tensor, its strides, or any short list of integers.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);
  static Shape filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return dims_[static_cast<std::size_t>(i)]; }
  std::int64_t back() const { return (*this)[rank_ - 1]; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }

  void push_back(std::int64_t dim);
  void erase(int i);
  void insert(int i, std::int64_t dim);

  // Product of the sizes; 1 for rank 0. Overflow is checked when a tensor is constructed.
  std::int64_t numel() const {
    std::int64_t n = 1;
    for (auto d : *this) n *= d;
    return n;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // [64, 784]

// Strides in elements of a dense row-major tensor.
Shape contiguous_strides(const Shape& shape);

// True if walking a tensor of this shape with these strides visits memory densely in row-major order.
bool is_contiguous(const Shape& shape, const Shape& strides);

// Converts a negative axis to its positive form; throws "[who] expected axis in …" when out of range.
int normalize_axis(std::int64_t axis, int rank, const char* who);

// Broadcast shape of two operands by NumPy's rules (align at the end, 1 stretches); throws naming both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* who);

// Throws unless all sizes are ≥ 0 and the number of bytes fits 63 bits.
void check_size(const Shape& shape, std::size_t element_size, const char* who);

}  // namespace starling
