#include "starling/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace starling {
namespace {

TEST(Result, HoldsAValueOrAReason) {
  const Result<int> good = 3;
  const Result<int> bad = failure("[x] expected {}, got {}", 1, 2);
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error(), "[x] expected 1, got 2");
  EXPECT_THROW(static_cast<void>(bad.value()), Error);
}

TEST(Result, GivesAwayWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  EXPECT_EQ(*std::move(result).value(), 5);
}

TEST(Result, OfNothingIsGoodByDefault) {
  EXPECT_TRUE(Result<void>().ok());
  const Result<void> bad = failure("no");
  EXPECT_FALSE(bad);
  EXPECT_THROW(bad.value(), Error);
}

TEST(Result, CarriesTheRankOnce) {
  set_thread_rank(3);
  const auto result = attempt([]() -> int { fail("[x] broken"); });
  std::string message;
  try {
    static_cast<void>(result.value());
  } catch (const Error& error) {
    message = error.what();
  }
  set_thread_rank(-1);
  EXPECT_EQ(result.error(), "[x] broken");
  EXPECT_EQ(message, "[rank 3] [x] broken");
}

TEST(Result, LetsOtherExceptionsPass) {
  EXPECT_THROW(static_cast<void>(attempt([]() -> int { throw std::bad_alloc(); })), std::bad_alloc);
  EXPECT_TRUE(attempt([] {}).ok());
}

}  // namespace
}  // namespace starling
