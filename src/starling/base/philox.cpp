#include "starling/base/philox.h"

#include <cmath>
#include <numbers>

namespace starling {
namespace {

// Bijection on 64 bits in which every output bit depends on every input bit (the finaliser of SplitMix64).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

std::array<std::uint32_t, 2> halves(std::uint64_t x) {
  return {static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(x >> 32)};
}

__extension__ using Wide = unsigned __int128;

PhiloxBlock block_of(const PhiloxStream& stream, std::uint64_t index) {
  const auto low = halves(index / 4);
  return philox4x32({low[0], low[1], stream.counter_high[0], stream.counter_high[1]}, stream.key);
}

}  // namespace

PhiloxStream::PhiloxStream(const PhiloxKey& from)
    : key(halves(mix(mix(from.seed + 0x9e3779b97f4a7c15u) + from.site))), counter_high(halves(from.step)) {}

PhiloxBlock philox4x32(PhiloxBlock c, std::array<std::uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const auto p0 = halves(std::uint64_t{0xD2511F53} * c[0]);
    const auto p1 = halves(std::uint64_t{0xCD9E8D57} * c[2]);
    c = {p1[1] ^ c[1] ^ k[0], p1[0], p0[1] ^ c[3] ^ k[1], p0[0]};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

std::uint32_t philox_bits(const PhiloxStream& stream, std::uint64_t index) {
  return block_of(stream, index)[index % 4];
}

float philox_uniform(const PhiloxStream& stream, std::uint64_t index) {
  return uniform_from_bits(philox_bits(stream, index));
}

std::uint64_t philox_bits64(const PhiloxStream& stream, std::uint64_t index) {
  const PhiloxBlock block = block_of(stream, 2 * index);
  const std::uint64_t pair = 2 * index % 4;
  return block[pair] | std::uint64_t{block[pair + 1]} << 32;
}

double philox_uniform53(const PhiloxStream& stream, std::uint64_t index) {
  return static_cast<double>(philox_bits64(stream, index) >> 11) * 0x1p-53;
}

std::uint64_t philox_below(const PhiloxStream& stream, std::uint64_t index, std::uint64_t total, std::uint64_t bound) {
  // High word of bits · bound; low words below 2^64 mod bound are rejected, since they would bias the result (Lemire
  // 2019).
  const std::uint64_t rejected = (0 - bound) % bound;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const auto product = static_cast<Wide>(philox_bits64(stream, index + attempt * total)) * bound;
    if (static_cast<std::uint64_t>(product) >= rejected) return static_cast<std::uint64_t>(product >> 64);
  }
}

double philox_normal(const PhiloxStream& stream, std::uint64_t index) {
  const PhiloxBlock block = block_of(stream, index);
  const std::uint64_t pair = index % 4 / 2 * 2;
  const double u1 = static_cast<double>((block[pair] >> 8) + 1) * 0x1p-24;  // (0, 1], so that the logarithm is finite
  const double angle = 2 * std::numbers::pi * static_cast<double>(uniform_from_bits(block[pair + 1]));
  return std::sqrt(-2 * std::log(u1)) * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace starling
