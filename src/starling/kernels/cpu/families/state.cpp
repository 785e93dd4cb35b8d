#include "starling/ops/api/state.h"

#include <new>
#include <vector>

#include "starling/kernels/cpu/gemm/product.h"
#include "starling/kernels/cpu/update/in_place.h"
#include "starling/kernels/cpu/update/sgd.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::kernels {
namespace {

// (w…, v…, g…, lr) → (w…, v…); the list of tensors is built in scratch.
template <class T>
std::unique_ptr<Plan> plan_sgd_as(const PlanRequest& request) {
  const auto a = request.attrs.as<op::SgdAttrs>();
  const SgdOptions options{a.momentum, a.weight_decay, a.nesterov};
  const std::size_t count = request.in.size() / 3;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) sizes.push_back(request.in[i].shape.numel());
  const DType rate = request.in.back().dtype;
  return make_plan(count * sizeof(SgdTensor<T>), [=](const Launch& launch) {
    auto* tensors = static_cast<SgdTensor<T>*>(launch.scratch);
    for (std::size_t i = 0; i < count; ++i) {
      T* weight = in_place<T>(launch, i, sizes[i]);
      T* velocity = in_place<T>(launch, count + i, sizes[i]);
      new (tensors + i) SgdTensor<T>{weight, static_cast<const T*>(launch.in[2 * count + i]), velocity, sizes[i]};
    }
    sgd_update<T>({tensors, count}, read_rate(rate, launch.in[3 * count]), options);
  });
}

std::unique_ptr<Plan> plan_sgd(const PlanRequest& request) {
  if (request.in[0].dtype == DType::f32) return plan_sgd_as<float>(request);
  if (request.in[0].dtype == DType::f64) return plan_sgd_as<double>(request);
  return nullptr;
}

std::unique_ptr<Plan> plan_matmul_sgd_f64(const PlanRequest& request, const BatchedProduct& product) {
  const auto& a = request.attrs.as<op::MatmulSgdAttrs>();
  const SgdOptions options{a.momentum, a.weight_decay, false};
  const auto n = request.in[0].shape.numel();
  const std::size_t aligned = (static_cast<std::size_t>(n) * sizeof(double) + 63) / 64 * 64;
  const DType rate = request.in.back().dtype;
  return make_plan(aligned + product.scratch_bytes(), [=](const Launch& l) {
    auto* gradient = static_cast<double*>(l.scratch);
    gemm(product.plan, static_cast<const double*>(l.in[2]), static_cast<const double*>(l.in[3]), gradient, false,
         static_cast<std::byte*>(l.scratch) + aligned);
    const SgdTensor<double> tensor{in_place<double>(l, 0, n), gradient, in_place<double>(l, 1, n), n};
    sgd_update<double>({&tensor, 1}, read_rate(rate, l.in[4]), options);
  });
}

std::unique_ptr<Plan> plan_matmul_sgd(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::MatmulSgdAttrs>();
  if (!request.in[0].contiguous() || !request.in[1].contiguous()) return nullptr;
  const auto product = plan_product(request.in[2], request.in[3], a.trans_a, a.trans_b, request.threads);
  if (!product || !product->batch.empty()) return nullptr;
  if (request.in[0].dtype == DType::f64) return plan_matmul_sgd_f64(request, *product);
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto n = request.in[0].shape.numel();
  const auto momentum = static_cast<float>(a.momentum), decay = static_cast<float>(a.weight_decay);
  return make_plan(product->scratch_bytes(), [=, plan = product->plan](const Launch& l) {
    const GemmSgd sgd{in_place<float>(l, 0, n), in_place<float>(l, 1, n), static_cast<const float*>(l.in[4]), momentum,
                      decay};
    GemmEpilogue epilogue;
    epilogue.sgd = &sgd;
    gemm(plan, static_cast<const float*>(l.in[2]), static_cast<const float*>(l.in[3]), nullptr, epilogue, l.scratch);
  });
}

}  // namespace

void register_cpu_state(KernelTable& table) {
  table.add("sgd_update", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_sgd});
  table.add("sgd_update_many", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_sgd});
  table.add("matmul_sgd", DeviceKind::cpu, {"gemm", Accepts::transposed, plan_matmul_sgd});
  table.add("matmul_sgd", DeviceKind::cpu, {"gemm", Accepts::contiguous, plan_matmul_sgd});
}

}  // namespace starling::kernels
