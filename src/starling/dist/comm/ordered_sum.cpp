#include "starling/dist/comm/ordered_sum.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/reduce.h"

namespace starling::dist {
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
    reduce_block(dtype, ReduceOp::sum, sources, b, n, block);
    std::memcpy(static_cast<std::byte*>(result) + b * size, block, static_cast<std::size_t>(n * size));
  }
}

// Sum by column owners. Works on one stripe of columns at a time, so that extra memory is bounded; each rank owns a
// piece of the stripe, receives all shards' values of it, adds them in order and sends the sum to the others. With s
// shards per rank this moves (s+1)(P-1)/P bytes per byte of result, against s(P-1) if every rank gathered everything.
class SumByOwners {
 public:
  SumByOwners(Comm& comm, const void* shards, std::int64_t shard_count, std::int64_t count, DType dtype,
              const CallOptions& options)
      : comm_(comm),
        shards_(static_cast<const std::byte*>(shards)),
        shard_count_(shard_count),
        count_(count),
        dtype_(dtype),
        size_(static_cast<std::int64_t>(size_of(dtype))),
        options_(options),
        held_(static_cast<std::size_t>(comm.size())),
        counts_(held_.size()) {
    comm_.all_gather(&shard_count_, held_.data(), 1, DType::i64, options_).wait();
    most_ = *std::max_element(held_.begin(), held_.end());
  }

  void run(void* result) {
    constexpr std::int64_t kStripe = 64 * 1024;
    for (std::int64_t b = 0; b < count_; b += kStripe)
      sum(b, std::min(kStripe, count_ - b), static_cast<std::byte*>(result) + b * size_);
  }

 private:
  // Sums columns [begin, begin + columns) of all shards into result.
  void sum(std::int64_t begin, std::int64_t columns, std::byte* result) {
    const auto world = static_cast<std::int64_t>(held_.size());
    const std::int64_t width = (columns + world - 1) / world, row = width * size_;
    out_.resize(static_cast<std::size_t>(world * most_ * row));
    in_.resize(out_.size());
    for (std::int64_t d = 0; d < world; ++d) {
      const std::int64_t first = std::min(columns, d * width), length = std::min(width, columns - first);
      counts_[static_cast<std::size_t>(d)] = length;
      for (std::int64_t k = 0; k < shard_count_ && length > 0; ++k) {
        std::memcpy(out_.data() + (d * most_ + k) * row, shards_ + (k * count_ + begin + first) * size_,
                    static_cast<std::size_t>(length * size_));
      }
    }
    comm_.all_to_all(out_.data(), in_.data(), most_ * width, dtype_, options_).wait();
    std::vector<const void*> sources;
    for (std::int64_t r = 0; r < world; ++r) {
      const auto rows = rows_of(in_.data() + r * most_ * row, held_[static_cast<std::size_t>(r)], row);
      sources.insert(sources.end(), rows.begin(), rows.end());
    }
    const std::int64_t own = counts_[static_cast<std::size_t>(comm_.rank())];
    std::byte* piece = result + std::min(columns, comm_.rank() * width) * size_;
    sum_blocks(dtype_, sources, own, piece);
    comm_.all_gather(piece, result, counts_, dtype_, options_).wait();
  }

  Comm& comm_;
  const std::byte* shards_;
  std::int64_t shard_count_, count_;
  DType dtype_;
  std::int64_t size_;
  const CallOptions& options_;
  std::vector<std::int64_t> held_, counts_;
  std::int64_t most_ = 0;  // largest shard count of any rank; every rank sends this many, padded
  std::vector<std::byte> out_, in_;
};

}  // namespace

void ordered_sum(Comm& comm, const void* shards, std::int64_t shard_count, void* result, std::int64_t count,
                 DType dtype, SumOrder order, const CallOptions& options) {
  check(count >= 0 && shard_count >= 0, "[ordered_sum] expected counts of at least 0, got {} shards of {}", shard_count,
        count);
  check(dtype != DType::boolean, "[ordered_sum] expected a dtype with a sum, got {}", name(dtype));
  if (order == SumOrder::by_rank_tree) {
    sum_blocks(dtype, rows_of(shards, shard_count, count * static_cast<std::int64_t>(size_of(dtype))), count, result);
    return comm.all_reduce(result, result, count, dtype, ReduceOp::sum, options).wait();
  }
  if (comm.capabilities().sum_shards) return comm.sum_shards(shards, shard_count, result, count, dtype, options).wait();
  SumByOwners(comm, shards, shard_count, count, dtype, options).run(result);
}

}  // namespace starling::dist
