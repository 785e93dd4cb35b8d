#pragma once

#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"
#include "starling/ops/api/reduce.h"

namespace starling::kernels::reference {

// Reduction of a strided tensor, one result after another: f.operator()<V>(each) returns a result, where each(g) calls
// g(V) with the elements of that result in row-major order, any number of times. V is double for floats and int64
// otherwise.
template <class V, class F>
std::unique_ptr<Plan> plan_reduction_in(const PlanRequest& request, const Shape& axes, F f) {
  const ArgDesc in = request.in[0], out = request.out[0];
  const Shape reduced = op::reduced_axes(axes, in.shape.rank(), "reduce");
  Shape kept_shape, kept_strides, shape, strides;
  for (int d = 0; d < in.shape.rank(); ++d) {
    const bool lost = std::find(reduced.begin(), reduced.end(), d) != reduced.end();
    (lost ? shape : kept_shape).push_back(in.shape[d]);
    (lost ? strides : kept_strides).push_back(in.strides[d]);
  }
  return make_plan([=](const Launch& launch) {
    std::int64_t result = 0;
    for_each_offset(kept_shape, std::array<Shape, 1>{kept_strides}, [&](const std::array<std::int64_t, 1>& base) {
      const auto each = [&](auto&& g) {
        for_each_offset(shape, std::array<Shape, 1>{strides}, [&](const std::array<std::int64_t, 1>& at) {
          g(read<V>(in.dtype, launch.in[0], base[0] + at[0]));
        });
      };
      const V y = f.template operator()<V>(each);
      if (out.dtype == DType::i64)
        write<std::int64_t>(out.dtype, launch.out[0], result++, static_cast<std::int64_t>(y));
      else
        write<V>(out.dtype, launch.out[0], result++, y);
    });
  });
}

template <class F>
std::unique_ptr<Plan> plan_reduction(const PlanRequest& request, const Shape& axes, F f) {
  return is_float(request.in[0].dtype) ? plan_reduction_in<double>(request, axes, f)
                                       : plan_reduction_in<std::int64_t>(request, axes, f);
}

// True if x takes the place of the best value so far: the first of equal values stays, and NaN wins over numbers.
inline bool beats(bool largest, auto x, auto best) {
  return (largest ? x > best : x < best) || (x != x && best == best);
}

}  // namespace starling::kernels::reference
