#include "starling/data/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace starling {
namespace {

using Values = std::vector<double>;

TEST(Statistics, AreExactOnASmallSet) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const TensorDataset data({from_doubles(Values{1, 2, 3, 4, nan, infinity, 5, 6}, {4, 2}),
                            from_doubles(Values{0, 1, 1, 2}, {4}, DType::i64)});
  const auto statistics = data_statistics(data, {.batch = 3});
  EXPECT_EQ(statistics.samples, 4);
  const auto& x = statistics.fields[0];
  EXPECT_EQ(to_string(x.type), "f32[2]");
  EXPECT_EQ(x.count, 6);
  EXPECT_EQ(x.nan, 1);
  EXPECT_EQ(x.infinite, 1);
  EXPECT_EQ(x.min, 1);
  EXPECT_EQ(x.max, 6);
  EXPECT_DOUBLE_EQ(x.mean, 3.5);
  EXPECT_DOUBLE_EQ(x.std, std::sqrt(17.5 / 6));
  EXPECT_DOUBLE_EQ(x.quantiles[1], 2.25);
  EXPECT_DOUBLE_EQ(x.quantiles[2], 3.5);
  EXPECT_FALSE(x.sampled);
  EXPECT_TRUE(x.classes.empty());
  EXPECT_EQ(statistics.fields[1].classes, (std::map<std::int64_t, std::int64_t>{{0, 1}, {1, 2}, {2, 1}}));
  const auto text = to_text(statistics, {"cat", "dog", "owl"});
  EXPECT_NE(text.find("1          2   50.0 %  dog"), std::string::npos) << text;
  EXPECT_NE(text.find("1 NaN, 1 infinite"), std::string::npos);
  EXPECT_EQ(to_json(statistics).at("fields").at(1).at("classes").at("1"), 2);
}

TEST(Statistics, QuantilesOfManyValuesComeFromAFairSample) {
  Tensor values = empty({1000, 1000});
  for (std::int64_t i = 0; i < values.numel(); ++i) values.data<float>()[i] = static_cast<float>(i) / 1e6F;  // sorted
  const auto statistics = data_statistics(TensorDataset({values}));
  const auto& field = statistics.fields[0];
  EXPECT_TRUE(field.sampled);
  for (std::size_t i = 0; i < field.quantiles.size(); ++i) {
    EXPECT_NEAR(field.quantiles[i], FieldStatistics::kQuantiles[i], 0.008) << i;
  }
  EXPECT_NEAR(field.mean, 0.5, 1e-6);
}

TEST(Statistics, OfALimitAreSpreadOverTheSet) {
  Tensor values = empty({1000});
  for (std::int64_t i = 0; i < 1000; ++i) values.data<float>()[i] = static_cast<float>(i);
  const auto statistics = data_statistics(TensorDataset({values}), {.most_samples = 10});
  EXPECT_EQ(statistics.looked_at, 10);
  EXPECT_EQ(statistics.fields[0].max, 900);
  EXPECT_EQ(statistics.fields[0].count, 10);
}

}  // namespace
}  // namespace starling
