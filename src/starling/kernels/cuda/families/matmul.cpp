#include "starling/ops/api/matmul.h"

#include <limits>

#include "starling/kernels/cuda/activation.h"
#include "starling/kernels/cuda/product_plans.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/strides.h"
#include "starling/tensor/shape_parts.h"

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

// Offsets of the operands of each product of a batch.
std::vector<Pair> batch_offsets(const PlanRequest& request) {
  const Shape batch = stack_sizes(request.out[0].shape);
  const auto strides = [&](const ArgDesc& arg) {
    return broadcast_strides(stack_sizes(arg.shape), stack_sizes(arg.strides), batch);
  };
  std::vector<Pair> found;
  for_each_offset(batch, std::array<Shape, 2>{strides(request.in[0]), strides(request.in[1])},
                  [&](const std::array<std::int64_t, 2>& at) {
                    found.push_back({at[0], at[1]});
                  });
  return found;
}

// The end of a product of 16-bit floats in its result: an activation, or its gradient by operand 2.
std::shared_ptr<const Plan> end_of(const ArgDesc& out, device::Activation activation, bool backward) {
  using cuda::Pointer;
  cuda::Chain chain{.shape = out.shape,
                    .operands = {{out.dtype, out.strides}},
                    .steps = {{cuda::activation_expression(activation, backward), {0}, out.dtype, {}}},
                    .outputs = {1}};
  std::vector<Pointer> pointers{{Pointer::Of::out, 0}};
  if (backward) {
    chain.operands.push_back({out.dtype, out.strides});
    chain.steps[0].in.push_back(1);
    chain.outputs = {2};
    pointers.push_back({Pointer::Of::in, 2});
  }
  pointers.push_back({Pointer::Of::out, 0});
  return cuda::plan_stages({cuda::chain_stage(chain, std::move(pointers))});
}

std::unique_ptr<Plan> then(std::shared_ptr<const Plan> first, std::shared_ptr<const Plan> second) {
  return make_plan(std::max(first->scratch_bytes, second->scratch_bytes), [=](const Launch& launch) {
    first->run(launch);
    second->run(launch);
  });
}

std::unique_ptr<Plan> plan_matmul(const PlanRequest& request) {
  if (!cuda::is_product(request)) return nullptr;
  const auto& at = request.attrs.as<op::MatmulAttrs>();
  ProductSpec spec = cuda::product_spec(request.in[0], request.in[1], at.trans_a, at.trans_b);
  spec.result = request.out[0].dtype;
  if (request.out[0].shape.rank() == 2) {
    return cuda::plan_product(spec, 0, [](Gemm& gemm, const Launch& launch) { gemm.c = output<float>(launch, 0); });
  }
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  const auto product = cuda::best_product(spec);
  return make_plan(product->scratch_bytes, [=, pairs = batch_offsets(request)](const Launch& launch) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      Gemm gemm = cuda::empty_gemm(spec);
      const std::int64_t size = static_cast<std::int64_t>(size_of(spec.dtype));
      const std::size_t each = static_cast<std::size_t>(spec.m) * static_cast<std::size_t>(spec.n);
      gemm.a = reinterpret_cast<const float*>(input<std::byte>(launch, 0) + pairs[i].a * size);
      gemm.b = reinterpret_cast<const float*>(input<std::byte>(launch, 1) + pairs[i].b * size);
      gemm.c = reinterpret_cast<float*>(output<std::byte>(launch, 0) + i * each * size_of(spec.result));
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
  ProductSpec spec{.m = static_cast<int>(rows),
                   .n = static_cast<int>(w[0]),
                   .k = static_cast<int>(w[1]),
                   .dtype = request.in[0].dtype,
                   .result = request.out[0].dtype,
                   .trans_b = true,
                   .activation = activation_of(request.attrs.as<op::LinearAttrs>().activation),
                   .bias = bias};
  const device::Activation wanted = spec.activation;
  const bool later = is_half(spec.dtype) && wanted != device::Activation::none && wanted != device::Activation::relu;
  if (later) spec.activation = device::Activation::none;
  auto product = cuda::plan_product(spec, 0, [bias](Gemm& gemm, const Launch& launch) {
    gemm.c = output<float>(launch, 0);
    if (bias) gemm.bias = input<float>(launch, 2);
  });
  return later ? then(std::move(product), end_of(request.out[0], wanted, false)) : std::move(product);
}

std::unique_ptr<Plan> plan_matmul_act(const PlanRequest& request) {
  if (!cuda::is_product(request) || request.out[0].shape.rank() != 2) return nullptr;
  const auto& at = request.attrs.as<op::MatmulActAttrs>();
  ProductSpec spec = cuda::product_spec(request.in[0], request.in[1], at.trans_a, at.trans_b);
  if (is_half(spec.dtype)) {
    auto product =
        cuda::plan_product(spec, 0, [](Gemm& gemm, const Launch& launch) { gemm.c = output<float>(launch, 0); });
    return then(std::move(product), end_of(request.out[0], activation_of(at.activation), true));
  }
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
