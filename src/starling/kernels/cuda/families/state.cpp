#include "starling/ops/api/state.h"

#include <algorithm>

#include "starling/kernels/cuda/device/sgd.h"
#include "starling/kernels/cuda/elementwise.h"
#include "starling/kernels/cuda/product_plans.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using device::SgdMany;

// Operands are all w, then all v, then all g, then lr; the update of one tensor is the case of one each. Gradients may
// be 16-bit floats.
std::unique_ptr<Plan> plan_sgd(const PlanRequest& request) {
  const std::size_t tensors = request.in.size() / 3;
  if (!cuda::all_f32(request.in.subspan(0, 2 * tensors)) || !cuda::all_f32(request.in.subspan(3 * tensors)))
    return nullptr;
  std::vector<device::Real> kinds;
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto kind = cuda::real_of(request.in[2 * tensors + i].dtype);
    if (!kind) return nullptr;
    kinds.push_back(*kind);
  }
  std::vector<long long> sizes;
  for (std::size_t i = 0; i < tensors; ++i) sizes.push_back(request.in[i].shape.numel());
  check_cuda(device::load_sgd(), "loading a kernel");
  return make_plan([attrs = request.attrs.as<op::SgdAttrs>(), sizes, kinds, tensors](const Launch& launch) {
    SgdMany many{};
    many.lr = input<float>(launch, 3 * tensors);
    many.momentum = static_cast<float>(attrs.momentum);
    many.decay = static_cast<float>(attrs.weight_decay);
    many.nesterov = attrs.nesterov;
    for (std::size_t first = 0; first < tensors; first += SgdMany::kMost) {
      many.count = static_cast<int>(std::min<std::size_t>(SgdMany::kMost, tensors - first));
      for (std::size_t i = 0; i < static_cast<std::size_t>(many.count); ++i) {
        const std::size_t t = first + i;
        many.tensors[i] = {input<float>(launch, t),
                           input<float>(launch, tensors + t),
                           launch.in[2 * tensors + t],
                           output<float>(launch, t),
                           output<float>(launch, tensors + t),
                           sizes[t],
                           kinds[t]};
      }
      check_cuda(device::launch_sgd(many, cuda::stream_of(launch)), "launching an update");
    }
  });
}

std::unique_ptr<Plan> plan_matmul_sgd(const PlanRequest& request) {
  if (!cuda::all_f32(request.in) || !cuda::is_product(request) || request.out[0].shape.rank() != 2) return nullptr;
  const auto at = request.attrs.as<op::MatmulSgdAttrs>();
  cuda::ProductSpec spec = cuda::product_spec(request.in[2], request.in[3], at.trans_a, at.trans_b);
  spec.epilogue = device::Epilogue::sgd;
  return cuda::plan_product(spec, 2, [at](device::Gemm& gemm, const Launch& launch) {
    gemm.w = input<float>(launch, 0);
    gemm.v = input<float>(launch, 1);
    gemm.w_out = output<float>(launch, 0);
    gemm.v_out = output<float>(launch, 1);
    gemm.lr = input<float>(launch, 4);
    gemm.momentum = static_cast<float>(at.momentum);
    gemm.decay = static_cast<float>(at.weight_decay);
  });
}

}  // namespace

void register_cuda_state(KernelTable& table) {
  Storable storable;
  storable.narrow_in = [](std::size_t i, std::size_t count) { return i >= count / 3 * 2 && i < count / 3 * 3; };
  cuda::add_storable("sgd_update", storable);
  cuda::add_storable("sgd_update_many", storable);
  table.add("sgd_update", DeviceKind::cuda, {"sgd", Accepts::contiguous, plan_sgd});
  table.add("sgd_update_many", DeviceKind::cuda, {"sgd", Accepts::contiguous, plan_sgd});
  table.add("matmul_sgd", DeviceKind::cuda, {"gemm", Accepts::contiguous, plan_matmul_sgd});
  table.add("identity", DeviceKind::cuda, {"nvrtc", Accepts::strided, cuda::plan_copy});
  cuda::add_storable("identity", cuda::converts());
}

}  // namespace starling::kernels
