#include "starling/kernels/strides.h"

#include "starling/base/error.h"

namespace starling::kernels {

Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& out) {
  Shape spread;
  const int extra = out.rank() - shape.rank();
  for (int i = 0; i < out.rank(); ++i) {
    const bool stretched = i < extra || shape[i - extra] != out[i];
    spread.push_back(stretched ? 0 : strides[i - extra]);
  }
  return spread;
}

namespace {

bool joins(const Loops& loops, std::span<const Shape> strides, int d, std::int64_t size) {
  const int last = loops.shape.rank() - 1;
  for (int k = 0; k < loops.operands; ++k) {
    const auto i = static_cast<std::size_t>(k);
    if (loops.strides[i][last] != strides[i][d] * size) return false;
  }
  return true;
}

}  // namespace

Loops collapse(const Shape& shape, std::span<const Shape> strides) {
  check(strides.size() <= Loops::kOperands, "[collapse] expected at most {} operands, got {}", Loops::kOperands,
        strides.size());
  Loops loops;
  loops.operands = static_cast<int>(strides.size());
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool join = loops.shape.rank() > 0 && joins(loops, strides, d, shape[d]);
    if (join)
      loops.shape[loops.shape.rank() - 1] *= shape[d];
    else
      loops.shape.push_back(shape[d]);
    for (std::size_t k = 0; k < strides.size(); ++k) {
      if (join)
        loops.strides[k][loops.shape.rank() - 1] = strides[k][d];
      else
        loops.strides[k].push_back(strides[k][d]);
    }
  }
  return loops;
}

}  // namespace starling::kernels
