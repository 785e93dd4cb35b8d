#include "strided.h"

#include <cstdint>
#include <cstring>

namespace starling::python {
namespace {

template <class T>
void copy_row(std::int64_t count, const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(T));
}

using CopyRow = void (*)(std::int64_t count, const void* from, std::int64_t from_stride, void* to,
                         std::int64_t to_stride);

template <class T>
void copy_any_row(std::int64_t count, const void* from, std::int64_t from_stride, void* to, std::int64_t to_stride) {
  if (from_stride == 1 && to_stride == 1)
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
  else
    copy_row(count, static_cast<const T*>(from), from_stride, static_cast<T*>(to), to_stride);
}

CopyRow row_copy(std::size_t size) {
  switch (size) {
    case 1: return &copy_any_row<std::uint8_t>;
    case 2: return &copy_any_row<std::uint16_t>;
    case 4: return &copy_any_row<std::uint32_t>;
    default: return &copy_any_row<std::uint64_t>;
  }
}

struct Walk {
  const Shape& shape;
  std::int64_t size;
  const Shape& from;
  const Shape& to;
  CopyRow row;

  void copy(int axis, const std::byte* source, std::byte* target) const {
    if (axis + 1 >= shape.rank())
      return shape.rank() == 0 ? row(1, source, 1, target, 1) : row(shape[axis], source, from[axis], target, to[axis]);
    for (std::int64_t i = 0; i < shape[axis]; ++i)
      copy(axis + 1, source + i * from[axis] * size, target + i * to[axis] * size);
  }
};

}  // namespace

void copy_elements(const Shape& shape, std::size_t size, const Elements& from, const Elements& to) {
  if (shape.numel() == 0) return;
  const Walk walk{shape, static_cast<std::int64_t>(size), from.strides, to.strides, row_copy(size)};
  walk.copy(0, static_cast<const std::byte*>(from.first), static_cast<std::byte*>(to.first));
}

}  // namespace starling::python
