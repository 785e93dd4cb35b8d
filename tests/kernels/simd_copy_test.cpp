#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/simd_testing.h"
#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/copy.h"

namespace starling::kernels {
namespace {

using Sizes = std::vector<std::int64_t>;

Sizes contiguous(const Sizes& shape) {
  Sizes strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t k = shape.size(); k-- > 0; step *= shape[k]) strides[k] = step;
  return strides;
}

std::int64_t dot(const Sizes& index, const Sizes& strides) {
  return std::inner_product(index.begin(), index.end(), strides.begin(), std::int64_t{0});
}

// Steps to the next index; false after the last.
bool advance(Sizes& index, const Sizes& shape) {
  for (std::size_t k = shape.size(); k-- > 0;) {
    if (++index[k] < shape[k]) return true;
    index[k] = 0;
  }
  return false;
}

// Gathers the permuted view of a contiguous array and scatters it back.
template <class T>
void expect_permuted(const Sizes& shape, const Sizes& order) {
  const Sizes strides = contiguous(shape);
  const std::int64_t n = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  Sizes view_shape, view_strides;
  for (const std::int64_t k : order) {
    view_shape.push_back(shape[static_cast<std::size_t>(k)]);
    view_strides.push_back(strides[static_cast<std::size_t>(k)]);
  }
  const Sizes packed = contiguous(view_shape);
  testing::Unaligned<T> x(n), y(n), back(n);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(i * 7 + 3);
  copy_strided({view_shape, x.data(), view_strides, y.data(), packed, sizeof(T)});
  copy_strided({view_shape, y.data(), packed, back.data(), view_strides, sizeof(T)});
  EXPECT_TRUE(y.intact() && back.intact());
  if (n == 0) return;
  Sizes index(shape.size(), 0);
  do {
    ASSERT_EQ(y[dot(index, packed)], x[dot(index, view_strides)]);
    ASSERT_EQ(back[dot(index, view_strides)], x[dot(index, view_strides)]);
  } while (advance(index, view_shape));
}

template <class T>
void expect_all_permutations() {
  for (const Sizes& shape :
       {Sizes{5}, Sizes{3, 4}, Sizes{37, 65}, Sizes{4, 5, 6}, Sizes{2, 17, 1, 33}, Sizes{3, 0, 2}}) {
    Sizes order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      expect_permuted<T>(shape, order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Copy, GathersAndScattersAnyPermutation) {
  testing::for_each_target([] {
    for (const int threads : {1, 3}) {
      ThreadScope scope(threads);
      expect_all_permutations<std::uint8_t>();
      expect_all_permutations<std::uint16_t>();
      expect_all_permutations<std::uint32_t>();
      expect_all_permutations<std::uint64_t>();
    }
  });
}

TEST(Copy, CopiesRankEight) { expect_permuted<std::uint32_t>({2, 3, 2, 2, 3, 2, 2, 2}, {7, 2, 5, 0, 3, 6, 1, 4}); }

TEST(Copy, RepeatsBroadcastAxes) {
  const float x[] = {1, 2, 3};
  float rows[4 * 3], cols[3 * 4], all[6];
  const Sizes r{4, 3}, r_from{0, 1}, r_to{3, 1}, c{3, 4}, c_from{1, 0}, c_to{4, 1}, s{2, 3}, s_from{0, 0};
  copy_strided({r, x, r_from, rows, r_to, 4});
  copy_strided({c, x, c_from, cols, c_to, 4});
  copy_strided({s, x, s_from, all, r_to, 4});
  for (int i = 0; i < 12; ++i) EXPECT_EQ(rows[i], x[i % 3]);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(cols[i], x[i / 4]);
  for (float v : all) EXPECT_EQ(v, 1.0f);
}

TEST(Copy, ReadsSlicesAndReversedAxes) {
  std::vector<std::int64_t> x(60), y(12);
  std::iota(x.begin(), x.end(), 0);
  const Sizes shape{3, 4}, from{20, -2}, to{4, 1};
  copy_strided({shape, x.data() + 9, from, y.data(), to, 8});
  for (std::int64_t r = 0; r < 3; ++r) {
    for (std::int64_t c = 0; c < 4; ++c) EXPECT_EQ(y[static_cast<std::size_t>(r * 4 + c)], 9 + 20 * r - 2 * c);
  }
}

TEST(Copy, SharesOneLongLineAmongThreads) {
  ThreadScope scope(3);
  std::vector<float> x(1000003), y(1000003);
  testing::fill_random(x.data(), static_cast<std::int64_t>(x.size()), 0, 1);
  const Sizes shape{1000003}, one{1};
  copy_strided({shape, x.data(), one, y.data(), one, 4});
  EXPECT_EQ(x, y);
}

TEST(Copy, TransposesLargeMatrices) {
  ThreadScope scope(2);
  const std::int64_t rows = 515, cols = 1030;
  std::vector<std::uint32_t> x(static_cast<std::size_t>(rows * cols)), y(x.size());
  std::iota(x.begin(), x.end(), 0u);
  transpose(x.data(), y.data(), rows, cols, 4);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      ASSERT_EQ(y[static_cast<std::size_t>(c * rows + r)], x[static_cast<std::size_t>(r * cols + c)]);
    }
  }
}

TEST(Copy, RefusesOddElementSizesAndRanks) {
  float x = 0, y = 0;
  const Sizes one{1}, nine(9, 1);
  EXPECT_THROW(copy_strided({one, &x, one, &y, one, 3}), Error);
  EXPECT_THROW(copy_strided({nine, &x, nine, &y, nine, 4}), Error);
  EXPECT_THROW(copy_strided({one, &x, nine, &y, one, 4}), Error);
}

}  // namespace
}  // namespace starling::kernels
