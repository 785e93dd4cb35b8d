#include "starling/dist/ps/portion_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace starling::dist::ps {
namespace {

TEST(PortionSet, IsASetOfNumbersInAnyOrder) {
  std::mt19937 random(3);
  PortionSet set;
  std::set<std::int64_t> plain;
  for (int i = 0; i < 2000; ++i) {
    const auto number = static_cast<std::int64_t>(random() % 700) - 50;
    EXPECT_EQ(set.add(number), plain.insert(number).second);
  }
  for (std::int64_t number = -60; number < 660; ++number) EXPECT_EQ(set.contains(number), plain.contains(number));
}

TEST(PortionSet, KeepsRunsOfConsecutiveNumbersAsOne) {
  std::vector<std::int64_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::ranges::shuffle(numbers, std::mt19937(5));
  PortionSet set;
  for (const auto number : numbers) set.add(number);
  EXPECT_EQ(set.runs(), 1U);
  set.add(1001);
  EXPECT_EQ(set.runs(), 2U);
}

}  // namespace
}  // namespace starling::dist::ps
