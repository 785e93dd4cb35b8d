#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace starling::data {

// Order of samples in one epoch: the sample at a position is a function of (seed, epoch, position) alone, computed in
// constant time and memory. Batch size, workers and resuming do not change it.
class EpochOrder {
 public:
  struct Options {
    std::int64_t size = 0;  // samples in the data set, at least 1
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;
    bool shuffle = true;  // false: position p is sample p
  };
  explicit EpochOrder(const Options& options);

  std::int64_t sample_at(std::int64_t position) const;                     // position in [0, size); a permutation
  void samples_at(std::int64_t first, std::span<std::int64_t> out) const;  // samples at positions first, first + 1, …

 private:
  static constexpr int kRounds = 8;

  std::uint64_t encrypt(std::uint64_t value) const;
  std::int64_t walk(std::uint64_t position) const;

  std::uint64_t size_;
  bool shuffle_;
  int half_bits_ = 1;
  std::array<std::uint32_t, kRounds> keys_{};
};

}  // namespace starling::data
