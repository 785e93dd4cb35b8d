#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace starling::testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

struct alignas(64) Line {
  char bytes[64];
};

// Scratch memory full of NaN, so that reads of uninitialised scratch show.
inline std::vector<Line> scratch_of(std::size_t bytes) {
  std::vector<Line> lines(bytes / 64 + 1);
  std::memset(lines.data(), 0xff, lines.size() * sizeof(Line));
  return lines;
}

// Uniform values in (-bound, bound).
inline Floats random_floats(std::int64_t count, std::uint32_t seed, float bound = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-bound, bound);
  Floats values(static_cast<std::size_t>(count));
  for (float& v : values) v = uniform(engine);
  return values;
}

inline Doubles doubles(const Floats& values) { return {values.begin(), values.end()}; }

}  // namespace starling::testing
