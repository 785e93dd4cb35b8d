#include "starling/train/loop/late_losses.h"

#include <gtest/gtest.h>

#include "data/held_copies.h"
#include "starling/base/error.h"

namespace starling::train {
namespace {

Tensor number(double value, DType dtype = DType::f32) { return from_doubles({&value, 1}, {}, dtype); }

TEST(LateLosses, ComeInTheOrderOfTheirStepsAndOnlyWhenTheyHaveArrived) {
  LateLosses losses(std::make_shared<testing::HeldCopies>(), 3);
  const Tensor first = number(0.5), second = number(0.25), rows = number(7, DType::i64);
  losses.send(first, {}, 64);
  losses.send(second, rows, 64);
  EXPECT_FALSE(losses.take(false)) << "nothing has arrived";
  const auto one = losses.take(true);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->loss, 0.5);
  EXPECT_EQ(one->weight, 64);
  const auto two = losses.take(true);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->loss, 0.25);
  EXPECT_EQ(two->weight, 7);
  EXPECT_TRUE(losses.empty());
  EXPECT_FALSE(losses.take(true));
}

TEST(LateLosses, AreAsManyAsThereIsRoomFor) {
  LateLosses losses(std::make_shared<testing::HeldCopies>(), 2);
  std::vector<Tensor> sent;
  for (double loss = 1; loss <= 7; ++loss) {
    if (losses.full()) {
      EXPECT_EQ(losses.take(true)->loss, loss - 2);
    }
    sent.push_back(number(loss));
    losses.send(sent.back(), {}, 1);
  }
  EXPECT_THROW(losses.send(sent.back(), {}, 1), Error);
  losses.forget();
  EXPECT_FALSE(losses.take(true));
}

}  // namespace
}  // namespace starling::train
