#pragma once

#include <cstdint>
#include <vector>

namespace starling::nn {

// Makes the rows, or the columns where there are fewer of them, of a row-major matrix orthonormal. Random normal
// numbers become a matrix of which all are equally likely. The bits do not depend on the number of threads.
void orthonormalise(std::vector<double>& matrix, std::int64_t rows, std::int64_t columns);

}  // namespace starling::nn
