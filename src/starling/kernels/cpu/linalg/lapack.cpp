#include "starling/kernels/cpu/linalg/lapack.h"

#include <algorithm>

namespace starling::kernels {

MatrixBatch::MatrixBatch(const Shape& shape, int most_threads)
    : count(1), rows(shape[shape.rank() - 2]), cols(shape.back()) {
  constexpr double kWorkPerThread = 50000, kLarge = 3e7;
  for (int i = 0; i + 2 < shape.rank(); ++i) count *= shape[i];
  const double work = static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(std::min(rows, cols));
  large = work > kLarge;
  if (rows == 0 || cols == 0 || count < most_threads) return;
  const double pieces = work * static_cast<double>(count) / kWorkPerThread;
  threads = static_cast<int>(std::clamp(pieces, 1.0, static_cast<double>(most_threads)));
}

}  // namespace starling::kernels
