#include "starling/kernels/cpu/simd/copy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/transpose.h"
#include "starling/tensor/shape.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrainBytes = 131072;

struct Axis {
  std::int64_t size;
  std::int64_t source;  // strides in elements
  std::int64_t target;
};

// Axes in the order memory is written: descending target strides, neighbours merged where both sides allow it.
struct Axes {
  std::array<Axis, kMaxRank> at;
  int count = 0;
  bool empty = false;

  explicit Axes(const StridedCopy& copy);
  void add(Axis axis);
  std::int64_t product() const;
};

Axes::Axes(const StridedCopy& copy) {
  std::array<Axis, kMaxRank> all;
  int rank = 0;
  for (std::size_t k = 0; k < copy.shape.size(); ++k) {
    empty = empty || copy.shape[k] == 0;
    if (copy.shape[k] != 1)
      all[static_cast<std::size_t>(rank++)] = {copy.shape[k], copy.source_strides[k], copy.target_strides[k]};
  }
  // Insertion sort, which is stable: std::stable_sort would allocate.
  for (int k = 1; k < rank; ++k) {
    for (auto i = static_cast<std::size_t>(k); i > 0 && std::abs(all[i].target) > std::abs(all[i - 1].target); --i)
      std::swap(all[i], all[i - 1]);
  }
  for (int k = 0; k < rank; ++k) add(all[static_cast<std::size_t>(k)]);
  if (count == 0) add({1, 1, 1});
}

void Axes::add(Axis axis) {
  if (count > 0) {
    Axis& last = at[static_cast<std::size_t>(count - 1)];
    if (last.source == axis.source * axis.size && last.target == axis.target * axis.size) {
      last = {last.size * axis.size, axis.source, axis.target};
      return;
    }
  }
  at[static_cast<std::size_t>(count++)] = axis;
}

std::int64_t Axes::product() const {
  std::int64_t total = 1;
  for (int k = 0; k < count; ++k) total *= at[static_cast<std::size_t>(k)].size;
  return total;
}

template <class T>
void copy_line(const std::byte* source, std::byte* target, const Axis& axis) {
  const T* s = reinterpret_cast<const T*>(source);
  T* t = reinterpret_cast<T*>(target);
  if (axis.source == 0 && axis.target == 1) {
    std::fill_n(t, axis.size, *s);
    return;
  }
  if (axis.source == -1 && axis.target == 1) {
    std::reverse_copy(s - (axis.size - 1), s + 1, t);
    return;
  }
  for (std::int64_t i = 0; i < axis.size; ++i) t[i * axis.target] = s[i * axis.source];
}

// One innermost line.
void copy_line(const std::byte* source, std::byte* target, const Axis& axis, int bytes) {
  if (axis.source == 1 && axis.target == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(axis.size * bytes));
    return;
  }
  if (bytes == 1) copy_line<std::uint8_t>(source, target, axis);
  if (bytes == 2) copy_line<std::uint16_t>(source, target, axis);
  if (bytes == 4) copy_line<std::uint32_t>(source, target, axis);
  if (bytes == 8) copy_line<std::uint64_t>(source, target, axis);
}

// Copies consecutive lines along an axis; lines of a few elements without a call each.
template <class T>
void copy_short_lines(const std::byte* source, std::byte* target, const Axis& along, const Axis& inner) {
  const T* s = reinterpret_cast<const T*>(source);
  T* t = reinterpret_cast<T*>(target);
  for (std::int64_t i = 0; i < along.size; ++i, s += along.source, t += along.target) {
    for (std::int64_t j = 0; j < inner.size; ++j) t[j * inner.target] = s[j * inner.source];
  }
}

void copy_plane(const std::byte* source, std::byte* target, const Axis& along, const Axis& inner, int bytes) {
  constexpr std::int64_t kShortBytes = 64;
  if (inner.size * bytes >= kShortBytes) {
    for (std::int64_t i = 0; i < along.size; ++i)
      copy_line(source + i * along.source * bytes, target + i * along.target * bytes, inner, bytes);
    return;
  }
  if (bytes == 1) copy_short_lines<std::uint8_t>(source, target, along, inner);
  if (bytes == 2) copy_short_lines<std::uint16_t>(source, target, along, inner);
  if (bytes == 4) copy_short_lines<std::uint32_t>(source, target, along, inner);
  if (bytes == 8) copy_short_lines<std::uint64_t>(source, target, along, inner);
}

// Offset of element number `index` of the outer axes (row-major), in elements.
Axis locate(const Axes& outer, std::int64_t index) {
  Axis offset{0, 0, 0};
  for (int k = outer.count - 1; k >= 0; --k) {
    const Axis& axis = outer.at[static_cast<std::size_t>(k)];
    const std::int64_t i = index % axis.size;
    index /= axis.size;
    offset.source += i * axis.source;
    offset.target += i * axis.target;
  }
  return offset;
}

// Outer axis along which the source is contiguous, or -1: exchanging it with the innermost is a transposition.
int exchanged_axis(const Axes& axes) {
  const Axis& inner = axes.at[static_cast<std::size_t>(axes.count - 1)];
  if (inner.target != 1 || inner.source == 1 || inner.source == 0) return -1;
  for (int k = 0; k + 1 < axes.count; ++k) {
    const Axis& axis = axes.at[static_cast<std::size_t>(k)];
    if (axis.source == 1 && axis.size >= 4) return k;
  }
  return -1;
}

Axis take(Axes& axes, int k) {
  const Axis taken = axes.at[static_cast<std::size_t>(k)];
  std::copy(axes.at.begin() + k + 1, axes.at.begin() + axes.count, axes.at.begin() + k);
  --axes.count;
  return taken;
}

// Copy by transposition. Threads share the planes or, if these are few, the rows within each plane.
void copy_exchanged(Axes outer, int k, const std::byte* source, std::byte* target, int bytes) {
  const Axis cols = take(outer, outer.count - 1), rows = take(outer, k);
  const std::int64_t planes = outer.product();
  const auto part = [&](std::int64_t plane, std::int64_t begin, std::int64_t end) {
    const Axis offset = locate(outer, plane);
    transpose_strided(source + (offset.source + begin) * bytes, cols.source,
                      target + (offset.target + begin * rows.target) * bytes, rows.target, end - begin, cols.size,
                      bytes);
  };
  if (planes < num_threads()) {
    const std::int64_t grain = std::max<std::int64_t>(kGrainBytes / (cols.size * bytes), 1);
    for (std::int64_t p = 0; p < planes; ++p) {
      parallel_for(rows.size, grain, [&](std::int64_t begin, std::int64_t end) { part(p, begin, end); });
    }
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(kGrainBytes / (cols.size * rows.size * bytes), 1);
  parallel_for(planes, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) part(p, 0, rows.size);
  });
}

// Copy by lines. Threads share the lines, or the single line.
void copy_lines(Axes outer, const std::byte* source, std::byte* target, int bytes) {
  const Axis inner = take(outer, outer.count - 1);
  const std::int64_t lines = outer.product();
  if (lines < num_threads()) {
    for (std::int64_t n = 0; n < lines; ++n) {
      const Axis at = locate(outer, n);
      parallel_for(inner.size, kGrainBytes / bytes, [&](std::int64_t begin, std::int64_t end) {
        copy_line(source + (at.source + begin * inner.source) * bytes,
                  target + (at.target + begin * inner.target) * bytes, {end - begin, inner.source, inner.target},
                  bytes);
      });
    }
    return;
  }
  const Axis along = outer.count > 0 ? outer.at[static_cast<std::size_t>(outer.count - 1)] : Axis{1, 0, 0};
  const std::int64_t grain = std::max<std::int64_t>(kGrainBytes / (inner.size * bytes), 1);
  parallel_for(lines, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t run = std::min(along.size - begin % along.size, end - begin);
      const Axis at = locate(outer, begin);
      copy_plane(source + at.source * bytes, target + at.target * bytes, {run, along.source, along.target}, inner,
                 bytes);
      begin += run;
    }
  });
}

}  // namespace

void copy_strided(const StridedCopy& copy) {
  const int bytes = copy.element_bytes;
  check(copy.shape.size() <= kMaxRank && copy.source_strides.size() == copy.shape.size() &&
            copy.target_strides.size() == copy.shape.size(),
        "[copy] expected shape and strides of one rank, at most {}, got ranks {}, {} and {}", kMaxRank,
        copy.shape.size(), copy.source_strides.size(), copy.target_strides.size());
  check(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8, "[copy] expected elements of 1, 2, 4 or 8 bytes, got {}",
        bytes);
  const Axes axes(copy);
  if (axes.empty) return;
  const auto* source = static_cast<const std::byte*>(copy.source);
  auto* target = static_cast<std::byte*>(copy.target);
  const int exchanged = exchanged_axis(axes);
  if (exchanged >= 0) return copy_exchanged(axes, exchanged, source, target, bytes);
  copy_lines(axes, source, target, bytes);
}

void transpose(const void* source, void* target, std::int64_t rows, std::int64_t cols, int element_bytes) {
  const std::array<std::int64_t, 2> shape{cols, rows}, from{1, cols}, to{rows, 1};
  copy_strided({shape, source, from, target, to, element_bytes});
}

}  // namespace starling::kernels
