#include "starling/base/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace starling {
namespace {

// Known answers published with Random123.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EverySeedStepAndSiteHasItsOwnStream) {
  std::set<std::uint32_t> first;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t step = 0; step < 10; ++step) {
      for (std::uint64_t site = 0; site < 10; ++site) first.insert(philox_bits(PhiloxStream({seed, step, site}), 0));
    }
  }
  EXPECT_GE(first.size(), 999u);
}

TEST(Philox, IndicesBeyond32BitsDoNotRepeat) {
  const PhiloxStream stream({1, 2, 3});
  EXPECT_NE(philox_bits(stream, 5), philox_bits(stream, 5 + (std::uint64_t{4} << 32)));
}

TEST(Philox, UniformsFillTheUnitInterval) {
  const PhiloxStream stream({7, 0, 0});
  double sum = 0, squares = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const float u = philox_uniform(stream, static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u, squares += static_cast<double>(u) * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.005);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.005);
}

TEST(Philox, NormalsHaveTheirMoments) {
  const PhiloxStream stream({7, 0, 0});
  double sum = 0, squares = 0, fourth = 0;
  const int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double z = philox_normal(stream, static_cast<std::uint64_t>(i));
    sum += z, squares += z * z, fourth += z * z * z * z;
  }
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NEAR(fourth / n, 3, 0.1);
}

}  // namespace
}  // namespace starling
