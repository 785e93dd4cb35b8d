#include "starling/ops/def/attrs/linear_epilogue.h"

#include <limits>

#include "starling/kernels/cuda/product_plans.h"
#include "starling/kernels/cuda/stages.h"

namespace starling::kernels {
namespace {

using cuda::Pointer;

// Epilogue of the product, which is in result `at`: the residual, the value kept, the activation.
std::unique_ptr<Plan> plan_epilogue(const PlanRequest& request, const op::LinearEpilogueAttrs& attrs, std::size_t at) {
  const Shape& shape = request.out[0].shape;
  const Shape strides = contiguous_strides(shape);
  cuda::Chain chain{.shape = shape, .operands = {{DType::f32, strides}}, .steps = {}, .outputs = {}};
  std::vector<Pointer> pointers{{Pointer::Of::out, at}};
  int value = 0;
  if (attrs.residual) {
    chain.operands.push_back({DType::f32, strides});
    pointers.push_back({Pointer::Of::in, attrs.biased ? 3u : 2u});
    chain.steps.push_back({"a + b", {0, 1}, DType::f32, {}});
    value = 2;
  }
  if (attrs.keep && attrs.residual) {
    chain.outputs.push_back(value);
    pointers.push_back({Pointer::Of::out, 1});
  }
  const std::string* expression =
      attrs.activation.empty() ? nullptr : cuda::elementwise_expression(attrs.activation.str());
  if (!attrs.activation.empty() && !expression) return nullptr;
  if (expression) {
    const bool has_parameter = !ending_op(attrs.activation)->attrs->fields.empty();
    chain.steps.push_back({*expression, {value}, DType::f32, {}});
    if (has_parameter) chain.steps.back().attributes.push_back(attrs.parameter);
    value = static_cast<int>(chain.operands.size() + chain.steps.size()) - 1;
  }
  if (expression || attrs.keep || attrs.residual) {
    chain.outputs.push_back(value);
    pointers.push_back({Pointer::Of::out, 0});
    return cuda::plan_stages({cuda::chain_stage(chain, std::move(pointers))});
  }
  return make_plan([](const Launch&) {});
}

std::unique_ptr<Plan> plan_linear_epilogue(const PlanRequest& request) {
  if (!cuda::is_product(request) || !cuda::all_f32(request.in)) return nullptr;
  const auto attrs = request.attrs.as<op::LinearEpilogueAttrs>();
  const Shape& w = request.in[1].shape;
  const std::int64_t rows = w[0] > 0 ? request.out[0].shape.numel() / w[0] : 0;
  if (rows > std::numeric_limits<int>::max()) return nullptr;
  const cuda::ProductSpec spec{.m = static_cast<int>(rows),
                               .n = static_cast<int>(w[0]),
                               .k = static_cast<int>(w[1]),
                               .trans_b = true,
                               .bias = attrs.biased};
  const std::size_t to = attrs.keep ? 1 : 0;
  std::shared_ptr<Plan> epilogue = plan_epilogue(request, attrs, to);
  if (!epilogue) return nullptr;
  std::shared_ptr<Plan> product =
      cuda::plan_product(spec, 0, [biased = attrs.biased, to](device::Gemm& gemm, const Launch& launch) {
        gemm.c = cuda::output<float>(launch, to);
        if (biased) gemm.bias = cuda::input<float>(launch, 2);
      });
  return make_plan(product->scratch_bytes, [product, epilogue](const Launch& launch) {
    product->run(launch);
    epilogue->run(launch);
  });
}

}  // namespace

void register_cuda_linear_epilogue(KernelTable& table) {
  table.add("linear_epilogue", DeviceKind::cuda, {"gemm", Accepts::contiguous, plan_linear_epilogue});
}

}  // namespace starling::kernels
