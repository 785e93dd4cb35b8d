#include "starling/ops/api/state.h"

#include <algorithm>

#include "starling/kernels/cuda/device/sgd.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/state.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using device::SgdMany;

// Operands are all w, then all v, then all g, then lr; the update of one tensor is the case of one each.
std::unique_ptr<Plan> plan_sgd(const PlanRequest& request) {
  if (!cuda::all_f32(request.in)) return nullptr;
  const std::size_t tensors = request.in.size() / 3;
  std::vector<long long> sizes;
  for (std::size_t i = 0; i < tensors; ++i) sizes.push_back(request.in[i].shape.numel());
  check_cuda(device::load_sgd(), "loading a kernel");
  return make_plan([attrs = request.attrs.as<op::SgdAttrs>(), sizes, tensors](const Launch& launch) {
    SgdMany many{};
    many.lr = input<float>(launch, 3 * tensors);
    many.momentum = static_cast<float>(attrs.momentum);
    many.decay = static_cast<float>(attrs.weight_decay);
    many.nesterov = attrs.nesterov;
    for (std::size_t first = 0; first < tensors; first += SgdMany::kMost) {
      many.count = static_cast<int>(std::min<std::size_t>(SgdMany::kMost, tensors - first));
      for (std::size_t i = 0; i < static_cast<std::size_t>(many.count); ++i) {
        const std::size_t t = first + i;
        many.tensors[i] = {
            input<float>(launch, t),  input<float>(launch, tensors + t),  input<float>(launch, 2 * tensors + t),
            output<float>(launch, t), output<float>(launch, tensors + t), sizes[t]};
      }
      check_cuda(device::launch_sgd(many, cuda::stream_of(launch)), "launching an update");
    }
  });
}

}  // namespace

void register_cuda_state(KernelTable& table) {
  table.add("sgd_update", DeviceKind::cuda, {"sgd", Accepts::contiguous, plan_sgd});
  table.add("sgd_update_many", DeviceKind::cuda, {"sgd", Accepts::contiguous, plan_sgd});
}

}  // namespace starling::kernels
