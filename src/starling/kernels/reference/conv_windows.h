#pragma once

#include "starling/ops/def/conv_geometry.h"

namespace starling::kernels::reference {

// Calls f(index in x, index in w, index in y) for every product that a convolution sums; all tensors dense.
template <class F>
void each_product(const ConvGeometry& g, F&& f) {
  const auto inside = [&](int axis, std::int64_t at, std::int64_t tap, std::int64_t& row) {
    row = at * g.stride[axis] - g.padding[axis] + tap * g.dilation[axis];
    return row >= 0 && row < g.x[axis + 2];
  };
  std::int64_t at_y = 0;
  for (std::int64_t n = 0; n < g.y[0]; ++n)
    for (std::int64_t o = 0; o < g.y[1]; ++o)
      for (std::int64_t i = 0; i < g.y[2]; ++i)
        for (std::int64_t j = 0; j < g.y[3]; ++j)
          for (std::int64_t k = 0; k < g.y[4]; ++k, ++at_y) {
            std::int64_t at_w = o * g.taps();
            for (std::int64_t c = 0; c < g.w[1]; ++c) {
              const std::int64_t channel = n * g.x[1] + o / g.group_out() * g.group_in() + c;
              for (std::int64_t p = 0; p < g.w[2]; ++p)
                for (std::int64_t q = 0; q < g.w[3]; ++q)
                  for (std::int64_t r = 0; r < g.w[4]; ++r, ++at_w) {
                    std::int64_t depth = 0, row = 0, col = 0;
                    if (inside(0, i, p, depth) && inside(1, j, q, row) && inside(2, k, r, col))
                      f(((channel * g.x[2] + depth) * g.x[3] + row) * g.x[4] + col, at_w, at_y);
                  }
            }
          }
}

// Sums in double in scratch, for terms that arrive in any order.
struct Sums {
  explicit Sums(const Shape& shape) : count(shape.numel()) {}
  std::int64_t count;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * sizeof(double); }
  double* clear(void* scratch) const {
    auto* sums = static_cast<double*>(scratch);
    for (std::int64_t i = 0; i < count; ++i) sums[i] = 0;
    return sums;
  }
};

}  // namespace starling::kernels::reference
