#include "starling/train/saved_model/batch_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "starling/base/error.h"

namespace starling::train {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BatchText, PutsTheBatchSizeInTheMarkedPlacesAndNowhereElse) {
  EXPECT_EQ(with_batch(R"(%0 = input {shape=[?, 28]} : f32[?, 28] "who?")", 7),
            R"(%0 = input {shape=[7, 28]} : f32[7, 28] "who?")");
  EXPECT_EQ(with_batch("[16?, 16?+3, 2?-1, ?+1]", 10), "[160, 163, 19, 11]");
  EXPECT_EQ(with_batch("\"a\\\"?\" ?", 3), "\"a\\\"?\" 3");
}

TEST(BatchText, FindsTheNumbersThatGrowWithTheBatch) {
  const auto print = [](std::int64_t n) {
    return fmt::format(
        "%0 = input {{shape=[{}, 5]}} : f32[{}, 5] \"in2\"\n%2 = reshape(%0) {{shape=[{}]}}  : f32[{}]\n", n, n, 5 * n,
        5 * n + 2);
  };
  EXPECT_EQ(free_batch(print),
            "%0 = input {shape=[?, 5]} : f32[?, 5] \"in2\"\n%2 = reshape(%0) {shape=[5?]} : f32[5?+2]\n");
}

TEST(BatchText, TakesColumnsThatMoveWithTheWidthOfNumbers) {
  const auto print = [](std::int64_t n) {
    return fmt::format("%0 = input {{shape=[{}]}}{} : f32[{}]\n", n, std::string(n > 9 ? 1 : 4, ' '), n);
  };
  EXPECT_EQ(free_batch(print), "%0 = input {shape=[?]} : f32[?]\n");
}

TEST(BatchText, RefusesGraphsThatDependOnTheBatchInAnotherWay) {
  const auto refused = [](const std::function<std::string(std::int64_t)>& print) {
    return error_of([&] { free_batch(print); });
  };
  EXPECT_NE(refused([](std::int64_t n) { return fmt::format("first\n[{}]\n", n * n); }).find("line 2"),
            std::string::npos);
  EXPECT_NE(refused([](std::int64_t n) { return fmt::format("scale=0.{}\n", n); }).find("line 1"), std::string::npos);
  EXPECT_NE(refused([](std::int64_t n) { return n == 2 ? "a\n" : "a\nb\n"; }), "");
  EXPECT_NE(refused([](std::int64_t n) { return fmt::format("%{} = x\n", n); }), "");
  EXPECT_NE(refused([](std::int64_t n) { return fmt::format("\"name{}\"\n", n); }), "");
  EXPECT_NE(refused([](std::int64_t n) { return fmt::format("[{}]\n", n < 16 ? n : 0); }), "");
  EXPECT_NE(refused([](std::int64_t) { return "what?\n"; }), "");
}

TEST(BatchText, RefusesNumbersThatDoNotFit) {
  EXPECT_NE(error_of([] { with_batch("9223372036854775807?", 2); }).find("can be addressed"), std::string::npos);
  EXPECT_NE(error_of([] { with_batch("99999999999999999999?", 2); }), "");
  EXPECT_NE(error_of([] { with_batch("?+", 2); }), "");
  EXPECT_NE(error_of([] { with_batch("?-5", 2); }), "");
  EXPECT_NE(error_of([] { with_batch("?", 0); }), "");
}

}  // namespace
}  // namespace starling::train
