#include "starling/ops/api/reduce.h"

#include <algorithm>

#include "starling/kernels/cuda/device/reduce.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using device::Reduce;
using device::ReduceAny;
using device::Reduction;

struct Kind {
  Reduction reduction;
  bool mean;
};

float scale_of(const PlanRequest& request, Kind kind) {
  const auto outputs = request.out[0].shape.numel();
  return kind.mean && outputs > 0 ? 1.f / static_cast<float>(request.in[0].shape.numel() / outputs) : 1.f;
}

// True if the axes are adjacent: x is [outer, terms, inner] then.
bool are_neighbours(const Shape& axes) {
  for (int i = 1; i < axes.rank(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return false;
  }
  return true;
}

std::unique_ptr<Plan> plan_neighbours(const PlanRequest& request, const Shape& axes, Kind kind) {
  const Shape& shape = request.in[0].shape;
  Reduce reduce{1, 1, 1, kind.reduction, scale_of(request, kind)};
  for (int d = 0; d < shape.rank(); ++d)
    (d < axes[0] ? reduce.outer : d > axes.back() ? reduce.inner : reduce.terms) *= shape[d];
  check_cuda(device::load_reduce(), "loading a kernel");
  return make_plan(
      static_cast<std::size_t>(device::reduce_pieces(reduce)) * sizeof(float), [reduce](const Launch& launch) {
        check_cuda(device::launch_reduce(reduce, cuda::input<float>(launch, 0), cuda::output<float>(launch, 0),
                                         static_cast<float*>(launch.scratch), cuda::stream_of(launch)),
                   "launching a reduction");
      });
}

std::unique_ptr<Plan> plan_any(const PlanRequest& request, const Shape& axes, Kind kind) {
  const Shape& shape = request.in[0].shape;
  ReduceAny reduce{};
  reduce.outputs = request.out[0].shape.numel();
  reduce.terms = shape.numel() / reduce.outputs;
  reduce.reduction = kind.reduction;
  reduce.scale = scale_of(request, kind);
  for (int d = 0; d < shape.rank(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    int& rank = reduced ? reduce.reduced_rank : reduce.kept_rank;
    (reduced ? reduce.reduced_size : reduce.kept_size)[rank] = shape[d];
    (reduced ? reduce.reduced_stride : reduce.kept_stride)[rank] = request.in[0].strides[d];
    ++rank;
  }
  check_cuda(device::load_reduce_any(), "loading a kernel");
  return make_plan([reduce](const Launch& launch) {
    check_cuda(device::launch_reduce_any(reduce, cuda::input<float>(launch, 0), cuda::output<float>(launch, 0),
                                         cuda::stream_of(launch)),
               "launching a reduction");
  });
}

auto planner(Kind kind) {
  return [kind](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (!cuda::all_f32(request.in)) return nullptr;
    if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
    const Shape axes = op::reduced_axes(request.attrs.as<op::ReduceAttrs>().axes, request.in[0].shape.rank(), "reduce");
    if (axes.empty()) return plan_neighbours(request, {0}, kind);  // a scalar
    return are_neighbours(axes) ? plan_neighbours(request, axes, kind) : plan_any(request, axes, kind);
  };
}

}  // namespace

void register_cuda_reduce(KernelTable& table) {
  table.add("sum", DeviceKind::cuda, {"reduce", Accepts::contiguous, planner({Reduction::sum, false})});
  table.add("mean", DeviceKind::cuda, {"reduce", Accepts::contiguous, planner({Reduction::sum, true})});
  table.add("max", DeviceKind::cuda, {"reduce", Accepts::contiguous, planner({Reduction::max, false})});
}

}  // namespace starling::kernels
