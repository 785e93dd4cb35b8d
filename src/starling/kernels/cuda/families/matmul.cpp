#include "starling/ops/api/matmul.h"

#include <limits>

#include "starling/kernels/cuda/activation.h"
#include "starling/kernels/cuda/product_plans.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/strides.h"

namespace starling::kernels {
namespace {

using cuda::activation_of;
using cuda::input;
using cuda::output;
using cuda::Product;
using cuda::ProductSpec;
using cuda::stream_of;
using device::Epilogue;
using device::Gemm;

bool fits(std::int64_t a, std::int64_t b, std::int64_t c) {
  return std::max({a, b, c}) <= std::numeric_limits<int>::max();
}

struct Pair {
  std::int64_t a, b;
};

Shape leading(const Shape& shape) {
  Shape out = shape;
  out.erase(out.rank() - 1);
  out.erase(out.rank() - 1);
  return out;
}

// Offsets of the operands of each product of a batch.
std::vector<Pair> batch_offsets(const PlanRequest& request) {
  const Shape batch = leading(request.out[0].shape);
  const auto strides = [&](const ArgDesc& arg) {
    return broadcast_strides(leading(arg.shape), leading(arg.strides), batch);
  };
  std::vector<Pair> found;
  for_each_offset(batch, std::array<Shape, 2>{strides(request.in[0]), strides(request.in[1])},
                  [&](const std::array<std::int64_t, 2>& at) {
                    found.push_back({at[0], at[1]});
                  });
  return found;
}

std::unique_ptr<Plan> plan_matmul(const PlanRequest& request) {
  if (!cuda::is_product(request)) return nullptr;
  const auto& at = request.attrs.as<op::MatmulAttrs>();
  const ProductSpec spec = cuda::product_spec(request.in[0], request.in[1], at.trans_a, at.trans_b);
  if (request.out[0].shape.rank() == 2) {
    return cuda::plan_product(spec, 0, [](Gemm& gemm, const Launch& launch) { gemm.c = output<float>(launch, 0); });
  }
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  const auto product = cuda::best_product(spec);
  return make_plan(product->scratch_bytes, [=, pairs = batch_offsets(request)](const Launch& launch) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      Gemm gemm = cuda::empty_gemm(spec);
      gemm.a = input<float>(launch, 0) + pairs[i].a;
      gemm.b = input<float>(launch, 1) + pairs[i].b;
      gemm.c = output<float>(launch, 0) + i * static_cast<std::size_t>(spec.m) * static_cast<std::size_t>(spec.n);
      product->run(gemm, launch.scratch, stream_of(launch));
    }
  });
}

std::unique_ptr<Plan> plan_linear(const PlanRequest& request) {
  if (!cuda::is_product(request)) return nullptr;
  const Shape& w = request.in[1].shape;
  const bool bias = request.in.size() == 3;
  const auto rows = w[0] > 0 ? request.out[0].shape.numel() / w[0] : 0;
  if (!fits(rows, w[0], w[1])) return nullptr;
  const ProductSpec spec{.m = static_cast<int>(rows),
                         .n = static_cast<int>(w[0]),
                         .k = static_cast<int>(w[1]),
                         .trans_b = true,
                         .activation = activation_of(request.attrs.as<op::LinearAttrs>().activation),
                         .bias = bias};
  return cuda::plan_product(spec, 0, [bias](Gemm& gemm, const Launch& launch) {
    gemm.c = output<float>(launch, 0);
    if (bias) gemm.bias = input<float>(launch, 2);
  });
}

std::unique_ptr<Plan> plan_matmul_act(const PlanRequest& request) {
  if (!cuda::is_product(request) || request.out[0].shape.rank() != 2) return nullptr;
  const auto& at = request.attrs.as<op::MatmulActAttrs>();
  ProductSpec spec = cuda::product_spec(request.in[0], request.in[1], at.trans_a, at.trans_b);
  spec.epilogue = Epilogue::backward;
  spec.activation = activation_of(at.activation);
  return cuda::plan_product(spec, 0, [](Gemm& gemm, const Launch& launch) {
    gemm.c = output<float>(launch, 0);
    gemm.y = input<float>(launch, 2);
  });
}

}  // namespace

void register_cuda_matmul(KernelTable& table) {
  table.add("matmul", DeviceKind::cuda, {"gemm", Accepts::transposed, plan_matmul});
  table.add("linear", DeviceKind::cuda, {"gemm", Accepts::contiguous, plan_linear});
  table.add("matmul_act", DeviceKind::cuda, {"gemm", Accepts::contiguous, plan_matmul_act});
}

}  // namespace starling::kernels
