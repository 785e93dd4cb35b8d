#include "starling/ops/def/attrs/linear_epilogue.h"

#include <algorithm>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/product.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_linear_epilogue(const PlanRequest& request) {
  const auto& attrs = request.attrs.as<op::LinearEpilogueAttrs>();
  const std::int64_t out = request.in[1].shape[0];
  ArgDesc x = request.in[0];
  x.shape = {request.out[0].shape.numel() / std::max<std::int64_t>(out, 1), x.shape.back()};
  x.strides = contiguous_strides(x.shape);
  const auto product = reference::make_product(x, request.in[1], false, true);
  const OpDef* ending = attrs.activation.empty() ? nullptr : ending_op(attrs.activation);
  return reference::for_floats(x.dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* y = static_cast<T*>(launch.out[0]);
      const auto* bias = attrs.biased ? static_cast<const T*>(launch.in[2]) : nullptr;
      const auto* residual = attrs.residual ? static_cast<const T*>(launch.in[attrs.biased ? 3 : 2]) : nullptr;
      reference::multiply(product, static_cast<const T*>(launch.in[0]), static_cast<const T*>(launch.in[1]),
                          [&](std::int64_t i, double sum) {
                            if (bias) sum += static_cast<double>(bias[i % out]);
                            if (residual) sum += static_cast<double>(residual[i]);
                            if (attrs.keep) static_cast<T*>(launch.out[1])[i] = static_cast<T>(sum);
                            const double in[] = {sum, attrs.parameter};
                            y[i] = static_cast<T>(ending ? ending->scalar(in) : sum);
                          });
    });
  });
}

}  // namespace

void register_reference_linear_epilogue(KernelTable& table) {
  table.add("linear_epilogue", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_linear_epilogue));
}

}  // namespace starling::kernels
