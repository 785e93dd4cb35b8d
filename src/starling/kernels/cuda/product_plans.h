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
          .dtype = a.dtype,
          .result = a.dtype,
          .trans_a = trans_a != !a.contiguous(),
          .trans_b = trans_b != !b.contiguous()};
}

// True if all operands are f32, or all are the same 16-bit float and none is empty, and no size exceeds an int.
inline bool is_product(const kernels::PlanRequest& request) {
  for (const auto& arg : request.in) {
    for (auto size : arg.shape) {
      if (size > std::numeric_limits<int>::max()) return false;
      if (size == 0 && is_half(arg.dtype)) return false;  // the library has no product over nothing
    }
  }
  const DType dtype = request.in[0].dtype;
  if (dtype != DType::f32 && !is_half(dtype)) return false;
  for (const auto& arg : request.in) {
    if (arg.dtype != dtype) return false;
  }
  return request.out[0].dtype == dtype || request.out[0].dtype == DType::f32;
}

// Expression of a product's value a, and of y = b for its gradient, that finishes a product for which the library has
// no epilogue of 16-bit floats.
inline const char* activation_expression(device::Activation activation, bool backward) {
  switch (activation) {
    case device::Activation::relu: return backward ? "b > T(0) ? a : T(0)" : "a < T(0) ? T(0) : a";
    case device::Activation::tanh: return backward ? "a * (T(1) - b * b)" : "tanh(a)";
    case device::Activation::sigmoid: return backward ? "a * b * (T(1) - b)" : "T(1) / (T(1) + exp(-a))";
    default: return "a";
  }
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
