#include "starling/data/loading/split.h"

#include <algorithm>
#include <numeric>

#include "starling/base/error.h"
#include "starling/base/philox.h"
#include "starling/data/datasets/own_parts.h"

namespace starling::data {
namespace {

constexpr std::uint64_t kSite = 0x73706c6974746572;  // "splitter"

void limit(std::shared_ptr<const Dataset>& data, std::int64_t most) {
  if (data && most > 0) data = first_of(std::move(data), most);
}

void divide(std::shared_ptr<const Dataset>& from, std::shared_ptr<const Dataset>& part, double share, std::int64_t seed,
            const char* what) {
  std::vector<std::int64_t> rest, taken;
  for (std::int64_t row = 0; row < from->size(); ++row) (share_of(row, seed) < share ? taken : rest).push_back(row);
  check(!rest.empty() && !taken.empty(),
        "[data] expected samples left to train with and to {} with, got {} and {} (choose another share, or take more "
        "data)",
        what, rest.size(), taken.size());
  part = part_of(from, std::move(taken));
  from = part_of(from, std::move(rest));
}

}  // namespace

Subset::Subset(std::shared_ptr<const Dataset> base, std::vector<std::int64_t> rows)
    : base_(std::move(base)), rows_(std::move(rows)) {
  for (auto row : rows_) {
    if (row < 0 || row >= base_->size()) fail("[data] expected samples below {}, got {}", base_->size(), row);
  }
}

void Subset::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  thread_local std::vector<std::int64_t> inner;  // reused; moved out first, since nested subsets recurse
  std::vector<std::int64_t> mapped = std::move(inner);
  mapped.clear();
  for (auto row : rows) {
    if (row < 0 || row >= size()) fail("[data] expected samples below {}, got {}", size(), row);
    mapped.push_back(rows_[static_cast<std::size_t>(row)]);
  }
  base_->gather(mapped, out);
  inner = std::move(mapped);
}

std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset> data, std::vector<std::int64_t> rows) {
  if (const auto* own = dynamic_cast<const OwnParts*>(data.get())) return own->part(rows);
  return std::make_shared<const Subset>(std::move(data), std::move(rows));
}

std::shared_ptr<const Dataset> first_of(std::shared_ptr<const Dataset> data, std::int64_t count) {
  if (data->size() <= count) return data;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return part_of(std::move(data), std::move(rows));
}

double share_of(std::string_view text, std::int64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return philox_uniform53(PhiloxStream({.seed = static_cast<std::uint64_t>(seed), .step = 0, .site = kSite}),
                          hash >> 1);
}

double share_of(std::int64_t number, std::int64_t seed) {
  return philox_uniform53(PhiloxStream({.seed = static_cast<std::uint64_t>(seed), .step = 0, .site = kSite + 1}),
                          static_cast<std::uint64_t>(number));
}

void finish_splits(DataSplits& splits, const SplitOptions& options) {
  if (options.valid_share > 0) {
    check(splits.train && !splits.valid,
          "[data] expected samples that can be asked by number to validate with, got none (leave out "
          "valid_share, or read the data without streaming)");
    divide(splits.train, splits.valid, options.valid_share, options.split_seed, "validate");
  }
  limit(splits.train, options.train_limit);
  limit(splits.test, options.test_limit);
}

void take_test_share(DataSplits& splits, double share, std::int64_t seed) {
  if (share > 0) divide(splits.train, splits.test, share, seed + 1, "test");
}

}  // namespace starling::data
