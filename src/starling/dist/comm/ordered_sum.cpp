#include "starling/dist/comm/ordered_sum.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/reduce.h"

namespace starling {
namespace {

// Pointers to the shards of a contiguous array.
std::vector<const void*> rows_of(const void* data, std::int64_t rows, std::int64_t bytes) {
  std::vector<const void*> pointers;
  for (std::int64_t r = 0; r < rows; ++r) pointers.push_back(static_cast<const std::byte*>(data) + r * bytes);
  return pointers;
}

void sum_blocks(DType dtype, const std::vector<const void*>& sources, std::int64_t count, void* result) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  alignas(64) std::byte block[kReduceBlock * 8];
  for (std::int64_t b = 0; b < count; b += kReduceBlock) {
    const std::int64_t n = std::min(kReduceBlock, count - b);
    reduce_block(dtype, CommReduce::sum, sources, b, n, block);
    std::memcpy(static_cast<std::byte*>(result) + b * size, block, static_cast<std::size_t>(n * size));
  }
}

// Gathers all ranks' shards a stripe of columns at a time, so that the extra memory is bounded, and adds them in order.
void sum_by_gathering(Comm& comm, const void* shards, std::int64_t shard_count, void* result, std::int64_t count,
                      DType dtype, const CallOptions& options) {
  constexpr std::int64_t kStripe = 64 * 1024;
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  std::vector<std::int64_t> held(static_cast<std::size_t>(comm.size()));
  comm.all_gather(&shard_count, held.data(), 1, DType::i64, options).wait();
  const std::int64_t total = std::accumulate(held.begin(), held.end(), std::int64_t{0});
  const std::int64_t widest = std::min(kStripe, count);
  std::vector<std::byte> own(static_cast<std::size_t>(shard_count * widest * size));
  std::vector<std::byte> all(static_cast<std::size_t>(total * widest * size));
  std::vector<std::int64_t> counts(held.size());
  for (std::int64_t b = 0; b < count; b += kStripe) {
    const std::int64_t n = std::min(kStripe, count - b);
    for (std::int64_t k = 0; k < shard_count; ++k) {
      std::memcpy(own.data() + k * n * size, static_cast<const std::byte*>(shards) + (k * count + b) * size,
                  static_cast<std::size_t>(n * size));
    }
    std::transform(held.begin(), held.end(), counts.begin(), [&](std::int64_t k) { return k * n; });
    comm.all_gather(own.data(), all.data(), counts, dtype, options).wait();
    sum_blocks(dtype, rows_of(all.data(), total, n * size), n, static_cast<std::byte*>(result) + b * size);
  }
}

}  // namespace

void ordered_sum(Comm& comm, const void* shards, std::int64_t shard_count, void* result, std::int64_t count,
                 DType dtype, SumOrder order, const CallOptions& options) {
  check(count >= 0 && shard_count >= 0, "[ordered_sum] expected counts of at least 0, got {} shards of {}", shard_count,
        count);
  check(dtype != DType::boolean, "[ordered_sum] expected a dtype with a sum, got {}", name(dtype));
  if (order == SumOrder::by_rank_tree) {
    sum_blocks(dtype, rows_of(shards, shard_count, count * static_cast<std::int64_t>(size_of(dtype))), count, result);
    return comm.all_reduce(result, result, count, dtype, CommReduce::sum, options).wait();
  }
  if (comm.capabilities().sum_shards) return comm.sum_shards(shards, shard_count, result, count, dtype, options).wait();
  sum_by_gathering(comm, shards, shard_count, result, count, dtype, options);
}

}  // namespace starling
