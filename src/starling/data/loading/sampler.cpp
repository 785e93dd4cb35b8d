#include "starling/data/loading/sampler.h"

#include <bit>

#include "starling/base/error.h"
#include "starling/base/philox.h"

namespace starling::data {
namespace {

constexpr std::uint64_t kSite = 0x73616d706c657273;  // "samplers": its own random stream of the run's seed

// Mixes every input bit into all output bits.
std::uint32_t mix(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

}  // namespace

EpochOrder::EpochOrder(const Options& options)
    : size_(static_cast<std::uint64_t>(options.size)), shuffle_(options.shuffle) {
  check(options.size >= 1 && options.epoch >= 0,
        "[sampler] expected at least one sample and an epoch of at least 0, got {} and {}", options.size,
        options.epoch);
  while ((std::uint64_t{1} << (2 * half_bits_)) < size_ && half_bits_ < 31) ++half_bits_;
  check(size_ <= std::uint64_t{1} << (2 * half_bits_), "[sampler] expected at most 2^62 samples, got {}", size_);
  const PhiloxStream stream({.seed = options.seed, .step = static_cast<std::uint64_t>(options.epoch), .site = kSite});
  for (int i = 0; i < kRounds; ++i) {
    keys_[static_cast<std::size_t>(i)] = philox_bits(stream, static_cast<std::uint64_t>(i));
  }
}

std::int64_t EpochOrder::sample_at(std::int64_t position) const {
  check(position >= 0 && static_cast<std::uint64_t>(position) < size_, "[sampler] expected a position below {}, got {}",
        size_, position);
  return shuffle_ ? walk(static_cast<std::uint64_t>(position)) : position;
}

void EpochOrder::samples_at(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  check(first >= 0 && first <= static_cast<std::int64_t>(size_) - count,
        "[sampler] expected positions below {}, got {} to {}", size_, first, first + count - 1);
  for (std::int64_t i = 0; i < count; ++i) {
    out[static_cast<std::size_t>(i)] = shuffle_ ? walk(static_cast<std::uint64_t>(first + i)) : first + i;
  }
}

// Cycle walking: applies a bijection of [0, 4^half_bits) until the result is below size, which gives a bijection of [0,
// size); at most four steps on average.
std::int64_t EpochOrder::walk(std::uint64_t position) const {
  auto value = encrypt(position);
  while (value >= size_) value = encrypt(value);
  return static_cast<std::int64_t>(value);
}

// A balanced Feistel network: invertible for any round function, so no two positions collide.
std::uint64_t EpochOrder::encrypt(std::uint64_t value) const {
  const std::uint32_t mask = (std::uint32_t{1} << half_bits_) - 1;
  auto left = static_cast<std::uint32_t>(value >> half_bits_);
  auto right = static_cast<std::uint32_t>(value) & mask;
  for (auto key : keys_) {
    const std::uint32_t next = left ^ (mix(right + key) & mask);
    left = right;
    right = next;
  }
  return std::uint64_t{left} << half_bits_ | right;
}

}  // namespace starling::data
