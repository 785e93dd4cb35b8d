#pragma once

#include <array>
#include <cstdint>

namespace starling {

// Counter-based random numbers (Philox4x32 with 10 rounds, Salmon et al. 2011). The number at `index` depends only on
// the key and the index: not on threads, on how a tensor is cut into pieces, or on earlier draws.

// Key of a random op: the run's seed, the training step, and the op's site (a hash of its scope path and call).
struct PhiloxKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t site = 0;
};

// Key in Philox form: seed and site mixed into the cipher's key, the step in the counter's high words. For one seed and
// site no two (step, index) share a counter.
struct PhiloxStream {
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 2> counter_high;

  explicit PhiloxStream(const PhiloxKey& from);
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

// The Philox4x32-10 block function.
PhiloxBlock philox4x32(PhiloxBlock counter, std::array<std::uint32_t, 2> key);

// Scalar definition of every random number in Starling; kernels produce the same numbers vectorised.
std::uint32_t philox_bits(const PhiloxStream& stream, std::uint64_t index);  // word index % 4 of block index / 4
float philox_uniform(const PhiloxStream& stream, std::uint64_t index);       // [0, 1), 24 bits
// Standard normal by Box-Muller from the words of the pair index / 2. Kernels agree to a few float ulps.
double philox_normal(const PhiloxStream& stream, std::uint64_t index);

// 64 random bits: the words 2 · index and 2 · index + 1.
std::uint64_t philox_bits64(const PhiloxStream& stream, std::uint64_t index);
// Uniform in [0, 1) with 53 bits.
double philox_uniform53(const PhiloxStream& stream, std::uint64_t index);
// Uniform integer in [0, bound), bound ≥ 1. Draws that would bias the result are rejected; attempt t reads the number
// at index + t · total, where `total` is the count of all numbers drawn from the stream.
std::uint64_t philox_below(const PhiloxStream& stream, std::uint64_t index, std::uint64_t total, std::uint64_t bound);

inline float uniform_from_bits(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace starling
