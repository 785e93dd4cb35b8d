#include "starling/kernels/cuda/norm_plans.h"

#include <limits>

#include "starling/kernels/cuda/stream.h"

namespace starling::cuda {

using device::Norm;
using kernels::Launch;
using kernels::make_plan;
using kernels::Plan;
using kernels::PlanRequest;

bool device_norm(const NormView& v, Norm& norm) {
  if (v.x.numel() > std::numeric_limits<int>::max()) return false;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  norm = {};
  norm.stats = v.stats.numel();
  norm.eps = static_cast<float>(v.eps);
  norm.centred = v.centred;
  if (v.x.rank() == 3) {  // channels
    norm.outer = number(v.x[0]), norm.length = number(v.x[2]);
    norm.step = v.x[2], norm.outer_step = v.x[1] * v.x[2];
    norm.groups = number(v.x[1]), norm.group_weights = 1, norm.inside = norm.length;
  } else if (v.x.rank() == 2) {  // rows
    norm.outer = 1, norm.length = number(v.x[1]), norm.step = v.x[1];
    norm.groups = 1, norm.group_weights = 0, norm.inside = 1;
  } else {  // groups of channels
    norm.outer = 1, norm.length = number(v.x[2] * v.x[3]), norm.step = norm.length;
    norm.groups = number(v.x[1]), norm.group_weights = number(v.x[2]), norm.inside = number(v.x[3]);
  }
  norm.pieces = device::norm_pieces(norm);
  return true;
}

namespace {

bool is_plain(const kernels::ArgDesc& out) { return out.dtype == DType::f32 && out.contiguous(); }

std::size_t scratch_of(const Norm& norm) {
  return norm.pieces > 1 ? static_cast<std::size_t>(norm.stats * norm.pieces) * 2 * sizeof(float) : 0;
}

}  // namespace

std::unique_ptr<Plan> plan_norm(const PlanRequest& request) {
  Norm norm;
  const NormView v = norm_view(request.op, {request.in[0].dtype, request.in[0].shape}, request.attrs);
  if (!all_f32(request.in) || !is_plain(request.out[0]) || !device_norm(v, norm)) return nullptr;
  if (v.x.numel() == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_norm(), "loading a kernel");
  return make_plan(scratch_of(norm), [norm, operands = request.in.size()](const Launch& launch) {
    device::NormForward f{};
    f.x = input<float>(launch, 0);
    f.weight = operands > 1 ? input<float>(launch, 1) : nullptr;
    f.bias = operands > 2 ? input<float>(launch, 2) : nullptr;
    f.y = output<float>(launch, 0);
    f.mean = norm.centred ? output<float>(launch, 1) : nullptr;
    f.var = output<float>(launch, norm.centred ? 2 : 1);
    check_cuda(device::launch_norm_forward(norm, f, static_cast<float*>(launch.scratch), stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_norm_backward(const PlanRequest& request) {
  Norm norm;
  const NormView v = norm_view(request.op, {request.in[1].dtype, request.in[1].shape}, request.attrs);
  if (!all_f32(request.in) || !is_plain(request.out[0]) || !device_norm(v, norm)) return nullptr;
  const std::size_t var_at = v.centred ? 3 : 2;
  const bool weighted = request.in.size() > var_at + 1;
  if (v.x.numel() == 0) {
    std::vector<std::size_t> bytes;
    for (const auto& out : request.out) bytes.push_back(bytes_of(out));
    return make_plan([bytes](const Launch& launch) {  // gradients of weights that nothing used are 0
      for (std::size_t i = 1; i < bytes.size(); ++i)
        check_cuda(cudaMemsetAsync(launch.out[i], 0, bytes[i], stream_of(launch)), "clearing a gradient");
    });
  }
  check_cuda(device::load_norm(), "loading a kernel");
  const bool by_stat = v.x.rank() == 3;
  const auto more = by_stat || !weighted ? 0 : static_cast<std::size_t>(device::norm_weight_scratch(norm));
  const std::size_t bytes = std::max(scratch_of(norm), more * sizeof(float));
  return make_plan(bytes, [=](const Launch& launch) {
    auto* scratch = static_cast<float*>(launch.scratch);
    device::NormBackward b{};
    b.dy = input<float>(launch, 0);
    b.x = input<float>(launch, 1);
    b.mean = norm.centred ? input<float>(launch, 2) : nullptr;
    b.var = input<float>(launch, var_at);
    b.weight = weighted ? input<float>(launch, var_at + 1) : nullptr;
    b.dx = output<float>(launch, 0);
    if (weighted && by_stat) b.dot = output<float>(launch, 1), b.sum = output<float>(launch, 2);
    check_cuda(device::launch_norm_backward(norm, b, scratch, stream_of(launch)), "launching a kernel");
    if (!weighted || by_stat) return;
    check_cuda(
        device::launch_norm_weights(norm, b, output<float>(launch, 1),
                                    norm.centred ? output<float>(launch, 2) : nullptr, scratch, stream_of(launch)),
        "launching a kernel");
  });
}

}  // namespace starling::cuda
