// Portions of batches, and loaders that make them.
#include "starling/data/loading/portions.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "starling/data/datasets/dataset.h"
#include "starling/data/loading/loader.h"
#include "starling/ops/api/creation.h"

namespace starling::data {
namespace {

TEST(Portions, OfAnEpochAreAllItsSamplesOnce) {
  for (const std::int64_t pieces : {1, 2, 3, 4}) {
    for (const std::int64_t start : {0, 5, 10, 23}) {
      const PortionGrid grid({.samples = 23, .batch = 10, .pieces = pieces, .start = {2, start}});
      std::int64_t at = start, epoch = 2;
      for (std::int64_t n = 0; n < grid.before_epoch(5); ++n) {
        const auto place = grid.at(n);
        if (place.batch.epoch != epoch) {
          EXPECT_EQ(at, 23) << "an epoch ends with its last sample";
          EXPECT_EQ(place.batch.epoch, ++epoch);
          at = 0;
        }
        EXPECT_EQ(place.batch.sample + place.first, at);
        at += place.size;
        EXPECT_EQ(grid.after(n + 1), (DataPosition{epoch, at}));
      }
      EXPECT_EQ(epoch, 4);
      EXPECT_EQ(at, 23);
    }
  }
}

// Gives the numbers of a list, then none.
class Listed final : public Portions {
 public:
  explicit Listed(std::vector<std::int64_t> numbers) : numbers_(std::move(numbers)) {}
  std::optional<std::int64_t> next(const std::atomic<bool>& /*stop*/) override {
    if (at_ == numbers_.size()) return std::nullopt;
    return numbers_[at_++];
  }

 private:
  std::vector<std::int64_t> numbers_;
  std::size_t at_ = 0;
};

std::vector<float> rows_of(const Batch& batch) {
  const auto* first = batch.fields[0].data<float>();
  return {first, first + batch.size};
}

TEST(Portions, AreTheRowsThatRanksWouldCutInAnyOrder) {
  std::vector<double> values(23);
  std::iota(values.begin(), values.end(), 0);
  const auto data = std::make_shared<TensorDataset>(std::vector<Tensor>{from_doubles(values, {23, 1})});
  const LoaderOptions common{.batch = 10, .seed = 3, .ranks = 2};
  std::map<std::int64_t, std::vector<float>> wanted;
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions own = common;
    own.rank = rank;
    Loader loader(data, own);
    for (std::int64_t batch = 0; batch < 3; ++batch) wanted[2 * batch + rank] = rows_of(*loader.next());
  }
  LoaderOptions handed = common;
  handed.portions = std::make_shared<Listed>(std::vector<std::int64_t>{4, 1, 0, 5, 2, 3});
  Loader loader(data, handed);
  for (int i = 0; i < 6; ++i) {
    const Batch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(rows_of(*batch), wanted.at(batch->portion)) << batch->portion;
  }
  EXPECT_EQ(loader.next(), nullptr);
}

}  // namespace
}  // namespace starling::data
