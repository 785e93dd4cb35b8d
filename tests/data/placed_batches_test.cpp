// Batches that a loader puts on a device ahead of time.
#include <gtest/gtest.h>

#include <numeric>

#include "data/held_copies.h"
#include "starling/data/loading/loader.h"

namespace starling::data {
namespace {

std::shared_ptr<const Dataset> rows(std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(2 * count)), labels(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1);
  std::iota(labels.begin(), labels.end(), 1);
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_doubles(values, {count, 2}), from_doubles(labels, {count}, DType::i64)});
}

TEST(PlacedBatches, AreOnTheDeviceWhenTheyAreHandedOut) {
  for (const int workers : {1, 3}) {
    Loader loader(rows(70),
                  {.batch = 16, .seed = 3, .workers = workers, .copies = std::make_shared<testing::HeldCopies>()});
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::int64_t samples = 0;
      while (const Batch* batch = loader.next()) {
        ASSERT_EQ(batch->placed.size(), batch->fields.size());
        for (std::size_t i = 0; i < batch->fields.size(); ++i) {
          EXPECT_NE(batch->placed[i].raw(), batch->fields[i].raw());
          EXPECT_EQ(batch->placed[i].to_vector(), batch->fields[i].to_vector()) << "field " << i;
        }
        samples += batch->size;
      }
      EXPECT_EQ(samples, 70);
    }
  }
}

TEST(PlacedBatches, AreThoseOfThePositionThatALoaderGoesBackTo) {
  Loader loader(rows(40), {.batch = 8, .seed = 5, .copies = std::make_shared<testing::HeldCopies>()});
  static_cast<void>(loader.next());
  const auto second = loader.next()->placed[1].to_vector();
  static_cast<void>(loader.next());
  loader.seek({0, 8});
  EXPECT_EQ(loader.next()->placed[1].to_vector(), second);
}

// Another tensor gets that memory next.
TEST(PlacedBatches, OfWhichOnePartWasPlacedHaveArrivedBeforeTheirMemoryIsFree) {
  const auto copies = std::make_shared<testing::HeldCopies>();
  {
    auto plan = std::make_unique<BatchPlan>();
    plan->size = 8;
    BatchSlot slot({{DType::f32, {2}}}, 8, std::move(plan), copies);
    slot.shape(2, 4);
    slot.begin();
    slot.place(0, 4);
    EXPECT_EQ(copies->under_way(), 1U);
  }
  EXPECT_EQ(copies->under_way(), 0U);
}

TEST(PlacedBatches, AreNoneWithoutADevice) {
  Loader loader(rows(8), {.batch = 8});
  EXPECT_TRUE(loader.next()->placed.empty());
}

}  // namespace
}  // namespace starling::data
