#include "starling/data/records/field_summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "starling/base/parallel.h"

namespace starling::data {
namespace {

TEST(FieldSummary, AgreesWithSumsOverAllValues) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal(1000, 0.5);  // a large mean: sums of squares would lose the spread
  std::vector<double> values(50000);
  double sum = 0;
  for (auto& value : values) sum += value = normal(random);
  const double mean = sum / 50000;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const FieldSummary field = summarise(from_host<double>(values, {500, 100}), {.chunk_bytes = 100000});
  EXPECT_EQ(field.samples, 500);
  EXPECT_EQ(to_string(field.type), "f64[100]");
  EXPECT_EQ(field.all.count, 50000);
  EXPECT_NEAR(field.all.mean, mean, 1e-9);
  EXPECT_NEAR(field.all.std(), std::sqrt(squares / 50000), 1e-9);
  EXPECT_EQ(field.all.min, *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(field.all.max, *std::max_element(values.begin(), values.end()));
}

TEST(FieldSummary, CountsZerosAndWhatIsNotFiniteApart) {
  const std::vector<float> values = {0, 2, NAN, INFINITY, -INFINITY, 4};
  const FieldMoments all = summarise(from_host<float>(values, {6})).all;
  EXPECT_EQ(all.count, 3);
  EXPECT_EQ(all.zeros, 1);
  EXPECT_EQ(all.nans, 1);
  EXPECT_EQ(all.infinities, 2);
  EXPECT_EQ(all.mean, 2);
  EXPECT_EQ(all.max, 4);
  EXPECT_TRUE(std::isnan(summarise(empty({0, 3})).all.std()));
}

TEST(FieldSummary, TellsChannelsOfPicturesApart) {
  std::vector<std::uint8_t> values;
  for (int sample = 0; sample < 2; ++sample) {
    for (const int channel : {10, 20, 30}) {
      for (int pixel = 0; pixel < 4; ++pixel) values.push_back(static_cast<std::uint8_t>(channel + 2 * sample));
    }
  }
  const FieldSummary field = summarise(from_host<std::uint8_t>(values, {2, 3, 2, 2}));
  ASSERT_EQ(field.channels.size(), 3U);
  EXPECT_EQ(field.channels[0].mean, 11);
  EXPECT_EQ(field.channels[2].mean, 31);
  EXPECT_EQ(field.channels[1].std(), 1);
  EXPECT_EQ(field.all.mean, 21);
  EXPECT_TRUE(summarise(zeros({2, 28, 28})).channels.empty());
}

TEST(FieldSummary, CountsTheValuesOfSingleIntegersUnlessThereAreTooMany) {
  const std::vector<std::int64_t> labels = {3, 1, 3, 3};
  const auto values = summarise(from_host<std::int64_t>(labels, {4})).values;
  EXPECT_EQ(values, (std::map<std::int64_t, std::int64_t>{{1, 1}, {3, 3}}));
  std::vector<std::int64_t> many(5000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(i);
  EXPECT_TRUE(summarise(from_host<std::int64_t>(many, {5000})).values.empty());
  EXPECT_TRUE(summarise(zeros({4})).values.empty());  // no integers
}

TEST(FieldSummary, ALimitTakesSamplesFromTheWholeSet) {
  std::vector<std::int64_t> numbers(1000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  const FieldSummary field = summarise(from_host<std::int64_t>(numbers, {1000}), {.limit = 10});
  EXPECT_EQ(field.samples, 10);
  EXPECT_EQ(field.all.min, 0);
  EXPECT_EQ(field.all.max, 900);
}

TEST(FieldSummary, DoesNotDependOnThreadsOrChunks) {
  std::vector<float> values(200000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 977);
  const Tensor tensor = from_host<float>(values, {2000, 100});
  const FieldMoments one = summarise(tensor).all;
  const ThreadScope threads(3);
  const FieldMoments other = summarise(tensor, {.chunk_bytes = 5000}).all;
  EXPECT_NEAR(one.mean, other.mean, 1e-10);
  EXPECT_NEAR(one.std(), other.std(), 1e-10);
  EXPECT_EQ(one.count, other.count);
}

TEST(FieldSummary, TextHasARowForEachFieldAndTheValues) {
  FieldSummary images = summarise(from_doubles(std::vector<double>{0, 1, 2, NAN}, {2, 2}));
  FieldSummary labels = summarise(from_host<std::int64_t>(std::vector<std::int64_t>{0, 1, 1, 1}, {4}));
  const std::string text = to_text({{"image", images}, {"label", labels, {"cat", "dog"}}});
  EXPECT_NE(text.find("image  f32[2]        2    0    2     1   0.8165  25.0 %    1\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("inf"), std::string::npos) << text;  // empty column
  EXPECT_NE(text.find("label: 2 different values"), std::string::npos) << text;
  EXPECT_NE(text.find("1 dog"), std::string::npos) << text;
  EXPECT_NE(text.find("75.0 %  ##############################"), std::string::npos) << text;
}

}  // namespace
}  // namespace starling::data
