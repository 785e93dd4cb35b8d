#pragma once

#include <limits>

#include "starling/kernels/cuda/product.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {

// Product of the last two dimensions of operands that may be transposed in memory.
inline ProductSpec product_spec(const kernels::ArgDesc& a, const kernels::ArgDesc& b, bool trans_a, bool trans_b) {
  const auto rows = [](const kernels::ArgDesc& x, bool trans) {
    return static_cast<int>(x.shape[x.shape.rank() - (trans ? 1 : 2)]);
  };
  const auto columns = [](const kernels::ArgDesc& x, bool trans) {
    return static_cast<int>(x.shape[x.shape.rank() - (trans ? 2 : 1)]);
  };
  return {.m = rows(a, trans_a),
          .n = columns(b, trans_b),
          .k = columns(a, trans_a),
          .trans_a = trans_a != !a.contiguous(),
          .trans_b = trans_b != !b.contiguous()};
}

// True if all operands are f32 and no size exceeds an int.
inline bool is_product(const kernels::PlanRequest& request) {
  for (const auto& arg : request.in) {
    for (auto size : arg.shape) {
      if (size > std::numeric_limits<int>::max()) return false;
    }
  }
  return all_f32(request.in);
}

// Product of operands `a` and `a` + 1; fill(gemm, launch) adds the pointers of result and epilogue.
template <class Fill>
std::unique_ptr<kernels::Plan> plan_product(const ProductSpec& spec, std::size_t a, Fill fill) {
  if (spec.m == 0 || spec.n == 0) return kernels::make_plan([](const kernels::Launch&) {});
  const auto product = best_product(spec);
  return kernels::make_plan(product->scratch_bytes, [=](const kernels::Launch& launch) {
    device::Gemm gemm = empty_gemm(spec);
    gemm.a = input<float>(launch, a);
    gemm.b = input<float>(launch, a + 1);
    fill(gemm, launch);
    product->run(gemm, launch.scratch, stream_of(launch));
  });
}

}  // namespace starling::cuda
