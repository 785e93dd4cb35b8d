#include "starling/data/formats/example.h"

#include <gtest/gtest.h>

#include "../../byte_helpers.h"
#include "starling/base/bytes.h"
#include "starling/data/formats/tfrecord.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::error_of;

TEST(TfExample, ReadsTheFeaturesOfARecord) {
  const auto reader = open_tfrecord(testing::golden("five.tfrecord"), 0);
  for (int i = 0; i < 5; ++i) {
    const Example example = parse_example(reader->next()->parts[0].bytes, "f");
    EXPECT_EQ(std::get<std::vector<float>>(example.at("x")),
              (std::vector<float>{static_cast<float>(i), static_cast<float>(i) / 2, -1.5F}));
    EXPECT_EQ(std::get<std::vector<std::int64_t>>(example.at("label")), (std::vector<std::int64_t>{i, -i}));
    EXPECT_EQ(std::get<std::vector<std::string>>(example.at("name")),
              (std::vector<std::string>{"sample " + std::to_string(i), std::string("\0\xff", 2)}));
  }
}

TEST(TfExample, RoundTrips) {
  const Example example = {{"a", std::vector<float>{1, 2}},
                           {"b", std::vector<std::int64_t>{-5}},
                           {"c", std::vector<std::string>{"x", ""}},
                           {"d", std::vector<float>{}}};
  EXPECT_EQ(parse_example(as_bytes(format_example(example)), "f"), example);
}

TEST(TfExample, RefusesOtherBytes) {
  EXPECT_NE(error_of([] { parse_example(as_bytes("hello"), "shard 3"); }).find("shard 3"), std::string::npos);
  const std::string whole = format_example({{"a", std::vector<float>{1, 2}}});
  EXPECT_NE(error_of([&] { parse_example(as_bytes(whole.substr(0, whole.size() - 1)), "f"); }), "");
}

}  // namespace
}  // namespace starling::data
