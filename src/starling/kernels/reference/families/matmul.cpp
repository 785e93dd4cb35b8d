#include "starling/ops/api/matmul.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/product.h"

namespace starling::kernels {
namespace {

using reference::for_floats;
using reference::make_product;
using reference::multiply;

// Integer products, whose sums wrap.
template <class T>
std::unique_ptr<Plan> plan_integers(const reference::Product& product) {
  return make_plan([product](const Launch& launch) {
    auto* c = static_cast<T*>(launch.out[0]);
    reference::multiply<std::uint64_t>(product, static_cast<const T*>(launch.in[0]),
                                       static_cast<const T*>(launch.in[1]),
                                       [&](std::int64_t i, std::uint64_t sum) { c[i] = static_cast<T>(sum); });
  });
}

std::unique_ptr<Plan> plan_matmul(const PlanRequest& request) {
  const auto& at = request.attrs.as<op::MatmulAttrs>();
  const auto product = make_product(request.in[0], request.in[1], at.trans_a, at.trans_b);
  if (request.in[0].dtype == DType::i32) return plan_integers<std::int32_t>(product);
  if (request.in[0].dtype == DType::i64) return plan_integers<std::int64_t>(product);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([product](const Launch& launch) {
      auto* c = static_cast<T*>(launch.out[0]);
      multiply(product, static_cast<const T*>(launch.in[0]), static_cast<const T*>(launch.in[1]),
               [&](std::int64_t i, double sum) { c[i] = static_cast<T>(sum); });
    });
  });
}

std::unique_ptr<Plan> plan_linear(const PlanRequest& request) {
  ArgDesc x = request.in[0];
  const auto in = x.shape.back();
  x.shape = {
      in == 0 ? request.out[0].shape.numel() / std::max<std::int64_t>(request.in[1].shape[0], 1) : x.shape.numel() / in,
      in};
  x.strides = contiguous_strides(x.shape);
  const auto product = make_product(x, request.in[1], false, true);
  const auto activate = reference::activation(request.attrs.as<op::LinearAttrs>().activation);
  const bool biased = request.in.size() == 3;
  return for_floats(x.dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* y = static_cast<T*>(launch.out[0]);
      const auto* bias = biased ? static_cast<const T*>(launch.in[2]) : nullptr;
      multiply(product, static_cast<const T*>(launch.in[0]), static_cast<const T*>(launch.in[1]),
               [&](std::int64_t i, double sum) {
                 y[i] = static_cast<T>(activate(sum + (bias ? static_cast<double>(bias[i % product.n]) : 0.0)));
               });
    });
  });
}

std::unique_ptr<Plan> plan_matmul_act(const PlanRequest& request) {
  const auto& at = request.attrs.as<op::MatmulActAttrs>();
  const auto product = make_product(request.in[0], request.in[1], at.trans_a, at.trans_b);
  const auto derivative = reference::activation_derivative(at.activation);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* c = static_cast<T*>(launch.out[0]);
      const auto* y = static_cast<const T*>(launch.in[2]);
      multiply(product, static_cast<const T*>(launch.in[0]), static_cast<const T*>(launch.in[1]),
               [&](std::int64_t i, double sum) { c[i] = static_cast<T>(sum * derivative(static_cast<double>(y[i]))); });
    });
  });
}

}  // namespace

void register_reference_matmul(KernelTable& table) {
  table.add("matmul", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_matmul));
  table.add("linear", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_linear));
  table.add("matmul_act", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_matmul_act));
}

}  // namespace starling::kernels
