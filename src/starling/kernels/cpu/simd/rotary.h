#pragma once

#include <cstdint>

namespace starling::kernels {

// Rotates pairs of elements of rows [rows, d]; row r takes angles from row r % steps of the tables [steps, d / 2]. y
// may be x.
struct RotaryTable {
  const float* cosines;
  const float* sines;
  std::int64_t steps;
};
void rotate_rows(const float* x, float* y, std::int64_t rows, std::int64_t d, const RotaryTable& table,
                 bool interleaved);

}  // namespace starling::kernels
