#include "starling/data/loading/seeded_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "starling/base/error.h"
#include "starling/data/loading/split.h"

namespace starling::data {
namespace {

// Rows in an order that the seed chooses; ties go by the number of the row.
std::vector<std::int64_t> shuffled_rows(std::int64_t count, std::int64_t seed) {
  std::vector<double> keys;
  for (std::int64_t row = 0; row < count; ++row) keys.push_back(share_of(row, seed));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](std::int64_t a, std::int64_t b) {
    return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
  });
  return rows;
}

std::int64_t part_size(double share, std::int64_t count) {
  return share > 0 ? std::max<std::int64_t>(1, std::llround(share * static_cast<double>(count))) : 0;
}

}  // namespace

void split_by_seed(DataSplits& splits, const SeededSplit& how) {
  check(splits.train != nullptr,
        "[data] expected samples that can be asked by number for data.split, got a stream (name files for each part)");
  check(
      how.test == 0 || (!splits.test && !splits.test_shards),
      "[data] expected a source without test samples for data.split, got one that has its own (leave out split.test)");
  check(how.valid == 0 || (!splits.valid && !splits.valid_shards),
        "[data] expected a source without validation samples for data.split, got one that has its own (leave out "
        "split.valid or valid_share)");
  const std::int64_t count = splits.train->size();
  const std::int64_t test = part_size(how.test, count), valid = part_size(how.valid, count);
  check(test + valid < count,
        "[data] expected samples left to train with, got {} of {} for data.split (lower its shares)", test + valid,
        count);
  const auto rows = shuffled_rows(count, how.seed);
  const auto part = [&, all = splits.train](std::int64_t begin, std::int64_t end) -> std::shared_ptr<const Dataset> {
    std::vector<std::int64_t> taken(rows.begin() + begin, rows.begin() + end);
    std::sort(taken.begin(), taken.end());  // in the order of the source, which reads files in a row
    return part_of(all, std::move(taken));
  };
  if (test > 0) splits.test = part(0, test);
  if (valid > 0) splits.valid = part(test, test + valid);
  splits.train = part(test + valid, count);
}

}  // namespace starling::data
