#include "starling/data/loading/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "starling/base/error.h"
#include "starling/tensor/allocator.h"

namespace starling::data {
namespace {

// Sample i is the row {i, 10 i} with label i.
std::shared_ptr<const Dataset> numbers(std::int64_t count) {
  std::vector<double> rows;
  std::vector<double> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    rows.insert(rows.end(), {static_cast<double>(i), 10.0 * static_cast<double>(i)});
    labels.push_back(static_cast<double>(i));
  }
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_doubles(rows, {count, 2}), from_doubles(labels, {count}, DType::i64)});
}

// Labels of the next `batches` batches, with -1 at the end of an epoch.
std::vector<double> labels(Loader& loader, int batches) {
  std::vector<double> all;
  for (int i = 0; i < batches; ++i) {
    const Batch* batch = loader.next();
    if (batch == nullptr) {
      all.push_back(-1);
      continue;
    }
    const auto part = batch->fields[1].to_vector();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(TensorDataset, GathersRowsOfEveryField) {
  const auto data = numbers(5);
  const TensorList out = {empty({2, 2}), empty({2}, DType::i64)};
  data->gather(std::vector<std::int64_t>{3, 1}, {out.data(), out.size()});
  EXPECT_EQ(out[0].to_vector(), (std::vector<double>{3, 30, 1, 10}));
  EXPECT_EQ(out[1].to_vector(), (std::vector<double>{3, 1}));
  EXPECT_EQ(to_string(data->fields()[0]), "f32[2]");
}

TEST(TensorDataset, RefusesFieldsAndOutputsThatDoNotMatch) {
  EXPECT_THROW(TensorDataset({empty({2, 2}), empty({3})}), Error);
  EXPECT_THROW(TensorDataset({}), Error);
  const auto data = numbers(5);
  const TensorList wrong = {empty({3, 2}), empty({2}, DType::i64)};
  EXPECT_THROW(data->gather(std::vector<std::int64_t>{0, 1}, {wrong.data(), wrong.size()}), Error);
  const TensorList right = {empty({1, 2}), empty({1}, DType::i64)};
  EXPECT_THROW(data->gather(std::vector<std::int64_t>{5}, {right.data(), right.size()}), Error);
}

TEST(Loader, HandsOutEverySampleOnceAnEpochWithASmallerTail) {
  Loader loader(numbers(10), {.batch = 4, .seed = 3});
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  std::vector<std::int64_t> sizes;
  std::set<double> seen;
  while (const Batch* batch = loader.next()) {
    sizes.push_back(batch->size);
    EXPECT_EQ(batch->fields[0].shape(), (Shape{batch->size, 2}));
    const auto rows = batch->fields[0].to_vector();
    const auto part = batch->fields[1].to_vector();
    for (std::size_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(rows[2 * i + 1], 10 * part[i]);
      EXPECT_TRUE(seen.insert(part[i]).second);
    }
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4, 4, 2}));
  EXPECT_EQ(seen.size(), 10U);
  EXPECT_EQ(loader.position(), (DataPosition{1, 0}));
}

TEST(Loader, DropsTheTailWhenAsked) {
  Loader loader(numbers(10), {.batch = 4, .shuffle = false, .drop_last = true});
  EXPECT_EQ(labels(loader, 4), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, -1, 0, 1, 2, 3}));
  EXPECT_EQ(loader.samples_per_epoch(), 8);
}

TEST(Loader, GoesThroughEpochsInOtherOrders) {
  Loader loader(numbers(50), {.batch = 50, .seed = 1});
  const auto first = labels(loader, 2);
  const auto second = labels(loader, 2);
  EXPECT_NE(first, second);
}

TEST(Loader, ResumesWithExactlyTheNextSample) {
  const auto data = numbers(23);
  for (int stop = 0; stop <= 14; ++stop) {
    Loader whole(data, {.batch = 5, .seed = 8});
    labels(whole, stop);
    Loader resumed(data, {.batch = 5, .seed = 8, .start = whole.position()});
    EXPECT_EQ(labels(resumed, 12), labels(whole, 12)) << stop;
  }
}

TEST(Loader, ResumesWithAnotherBatchSizeInTheSameOrder) {
  const auto data = numbers(23);
  Loader whole(data, {.batch = 5, .seed = 8});
  labels(whole, 2);
  Loader other(data, {.batch = 3, .seed = 8, .start = whole.position()});
  EXPECT_EQ(labels(other, 6), labels(whole, 4));  // 13 samples and the end of the epoch
}

TEST(Loader, SeeksBackAndForth) {
  Loader loader(numbers(23), {.batch = 5, .seed = 8});
  const auto first = labels(loader, 9);
  loader.seek({0, 0});
  EXPECT_EQ(labels(loader, 9), first);
  loader.seek({0, 23});
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_THROW(loader.seek({0, 24}), Error);
  EXPECT_EQ(loader.next()->begin, (DataPosition{1, 0}));  // a refused seek changes nothing
}

TEST(Loader, AllocatesNoTensorsOnceWarm) {
  Loader loader(numbers(23), {.batch = 5, .seed = 8, .prefetch = 3});
  for (int i = 0; i < 30; ++i) loader.next();
  const auto before = allocator(kCpu).stats().allocations;
  std::set<void*> buffers;
  for (int i = 0; i < 100; ++i) {
    if (const Batch* batch = loader.next()) buffers.insert(batch->fields[0].raw());
  }
  EXPECT_EQ(allocator(kCpu).stats().allocations, before);
  EXPECT_LE(buffers.size(), 4U);
}

TEST(Loader, KeepsABatchUntilTheNextIsAskedFor) {
  Loader loader(numbers(1000), {.batch = 2, .shuffle = false, .prefetch = 1});
  for (int i = 0; i < 300; ++i) {
    const Batch* batch = loader.next();
    const auto before = batch->fields[1].to_vector();
    std::this_thread::yield();
    EXPECT_EQ(batch->fields[1].to_vector(), before);
    EXPECT_EQ(before[0], 2 * i);
  }
}

class Broken final : public Dataset {
 public:
  std::int64_t size() const override { return 10; }
  std::vector<TensorType> fields() const override { return {{DType::f32, {}}}; }
  void gather(std::span<const std::int64_t>, std::span<const Tensor>) const override {
    if (++calls > 2) fail("[broken] expected a disk, got none");
  }
  mutable int calls = 0;
};

TEST(Loader, ThrowsWhatTheDataSetThrewAfterTheGoodBatches) {
  Loader loader(std::make_shared<Broken>(), {.batch = 2});
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_THROW(loader.next(), Error);
  EXPECT_THROW(loader.next(), Error);
}

TEST(Loader, RefusesWrongOptions) {
  EXPECT_THROW(Loader(numbers(3), {.batch = 0}), Error);
  EXPECT_THROW(Loader(numbers(3), {.batch = 4, .drop_last = true}), Error);
  EXPECT_THROW(Loader(numbers(3), {.batch = 1, .prefetch = 0}), Error);
  EXPECT_THROW(Loader(numbers(3), {.batch = 1, .start = {0, 4}}), Error);
  Loader large(numbers(3), {.batch = 8});
  EXPECT_EQ(large.next()->size, 3);
}

}  // namespace
}  // namespace starling::data
