#include "starling/kernels/cpu/index/row_order.h"

#include <algorithm>
#include <array>

#include "starling/base/error.h"
#include "starling/kernels/cpu/fused/op_blocks.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {

void check_indices(const std::int64_t* indices, std::int64_t n, std::int64_t rows, const char* who) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (indices[i] < 0 || indices[i] >= rows) [[unlikely]]
      fail("[{}] expected indices in [0, {}), got {} at position {}", who, rows, indices[i], i);
  }
}

template <class T>
RowAdd<T>::RowAdd(std::int64_t width) : width_(width) {
  const DType two[2] = {dtype_of<T>(), dtype_of<T>()};
  add_ = find_block(named_op<"add">(), two).fn;
}
template class RowAdd<float>;
template class RowAdd<double>;

namespace {

constexpr int kBits = 11;
constexpr std::size_t kBuckets = std::size_t{1} << kBits;

// One stable pass of a radix sort.
void pass(const RowEntry* from, RowEntry* to, std::int64_t n, int shift) {
  std::array<std::int64_t, kBuckets> at{};
  const auto digit = [&](const RowEntry& e) { return static_cast<std::size_t>(e.row >> shift) & (kBuckets - 1); };
  for (std::int64_t i = 0; i < n; ++i) ++at[digit(from[i])];
  std::int64_t sum = 0;
  for (auto& count : at) sum += std::exchange(count, sum);
  for (std::int64_t i = 0; i < n; ++i) to[at[digit(from[i])]++] = from[i];
}

}  // namespace

RowEntry* sort_by_row(const std::int64_t* rows, std::int64_t n, RowEntry* a, RowEntry* b) {
  std::int64_t most = 0;
  bool negative = false;
  for (std::int64_t i = 0; i < n; ++i) {
    a[i] = {rows[i], i};
    most = std::max(most, rows[i]);
    negative |= rows[i] < 0;
  }
  constexpr std::int64_t kFew = 256;
  if (n < kFew || negative) {
    std::sort(a, a + n, [](const RowEntry& x, const RowEntry& y) {
      return x.row != y.row ? x.row < y.row : x.position < y.position;
    });
    return a;
  }
  for (int shift = 0; shift < 63 && (most >> shift) > 0; shift += kBits) {
    pass(a, b, n, shift);
    std::swap(a, b);
  }
  return a;
}

}  // namespace starling::kernels
