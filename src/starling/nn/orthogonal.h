#pragma once

#include <cstdint>
#include <vector>

namespace starling::nn {

// Makes the rows of a row-major matrix orthonormal, or the columns where there are fewer of them. Random normal input
// gives a uniformly distributed orthogonal matrix. The result does not depend on the number of threads.
void orthonormalise(std::vector<double>& matrix, std::int64_t rows, std::int64_t columns);

}  // namespace starling::nn
