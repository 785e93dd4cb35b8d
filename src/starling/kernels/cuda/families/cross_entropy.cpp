#include "starling/kernels/cuda/device/cross_entropy.h"

#include "starling/kernels/cuda/device/reduce.h"
#include "starling/kernels/cuda/device/rows.h"
#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using cuda::stream_of;

struct Rows {
  long long rows;
  int classes;
};

Rows rows_of(const PlanRequest& request) { return {request.in[0].shape[0], static_cast<int>(request.in[0].shape[1])}; }

bool is_plannable(const PlanRequest& request) {
  return request.in[0].dtype == DType::f32 && request.in[0].shape[1] <= (1 << 30);
}

// Few classes fit one block with all rows; many rows of them have kernels of their own.
constexpr int kLeastClasses = 256;

// Logits of any kind of float; with operand 2 as weights of the rows.
struct Mixed {
  Rows rows;
  device::Real kind;
  bool weighted;
  device::CrossEntropyRows on(const Launch& launch) const {
    return {{launch.in[0], kind},
            input<long long>(launch, 1),
            weighted ? input<float>(launch, 2) : nullptr,
            rows.rows,
            rows.classes};
  }
};
std::optional<Mixed> mixed_of(const PlanRequest& request, bool weighted) {
  const auto kind = cuda::real_of(request.in[0].dtype);
  const Shape& shape = request.in[0].shape;
  if (!kind || shape[0] == 0 || shape[0] >= (1ll << 31) || shape[1] == 0 || shape[1] > (1 << 30)) return std::nullopt;
  if (!weighted && *kind == device::Real::f32 && shape[1] < kLeastClasses) return std::nullopt;
  if (!cuda::all_f32(request.in.subspan(2))) return std::nullopt;
  check_cuda(device::load_cross_entropy_rows(), "loading a kernel");
  return Mixed{rows_of(request), *kind, weighted};
}

// Without rows the sum is 0, and nothing else has elements.
std::unique_ptr<Plan> plan_no_rows(const PlanRequest& request) {
  return make_plan([bytes = bytes_of(request.out[0])](const Launch& launch) {
    if (bytes > 0) check_cuda(cudaMemsetAsync(launch.out[0], 0, bytes, stream_of(launch)), "clearing a result");
  });
}

auto mixed_planner(bool weighted) {
  return [weighted](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (weighted && request.in[0].shape[0] == 0) return plan_no_rows(request);
    const auto mixed = mixed_of(request, weighted);
    if (!mixed || !cuda::all_f32(request.out)) return nullptr;
    check_cuda(device::load_reduce(), "loading a kernel");
    const device::Reduce all{1, mixed->rows.rows, 1, device::Reduction::sum, 1.f};
    return make_plan(static_cast<std::size_t>(device::reduce_pieces(all)) * sizeof(float),
                     [mixed = *mixed, all](const Launch& launch) {
                       float* losses = output<float>(launch, 2);
                       check_cuda(device::launch_cross_entropy_rows(mixed.on(launch), output<float>(launch, 1), losses,
                                                                    stream_of(launch)),
                                  "launching a kernel");
                       check_cuda(device::launch_reduce(all, losses, output<float>(launch, 0),
                                                        static_cast<float*>(launch.scratch), stream_of(launch)),
                                  "launching a kernel");
                     });
  };
}

auto mixed_backward_planner(bool weighted) {
  return [weighted](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (weighted && request.in[0].shape[0] == 0) return plan_no_rows(request);
    const auto mixed = mixed_of(request, weighted);
    const auto to = cuda::real_of(request.out[0].dtype);
    if (!mixed || !to) return nullptr;
    const std::size_t lse = weighted ? 3 : 2;
    return make_plan([mixed = *mixed, lse, to = *to](const Launch& launch) {
      check_cuda(device::launch_cross_entropy_rows_backward(mixed.on(launch), input<float>(launch, lse),
                                                            input<float>(launch, lse + 1), {launch.out[0], to},
                                                            stream_of(launch)),
                 "launching a kernel");
    });
  };
}

// Plans zero rows too: the kernel writes a sum of 0.
std::unique_ptr<Plan> plan_cross_entropy(const PlanRequest& request) {
  if (!is_plannable(request)) return nullptr;
  check_cuda(device::load_cross_entropy(), "loading a kernel");
  const Rows r = rows_of(request);
  return make_plan(static_cast<std::size_t>(device::cross_entropy_scratch(r.rows, r.classes)) * sizeof(float),
                   [r](const Launch& launch) {
                     check_cuda(device::launch_cross_entropy(input<float>(launch, 0), input<long long>(launch, 1),
                                                             output<float>(launch, 0), output<float>(launch, 1),
                                                             output<float>(launch, 2), r.rows, r.classes,
                                                             static_cast<float*>(launch.scratch), stream_of(launch)),
                                "launching a kernel");
                   });
}

std::unique_ptr<Plan> plan_cross_entropy_backward(const PlanRequest& request) {
  if (!is_plannable(request) || request.in[3].dtype != DType::f32 || request.out[0].dtype != DType::f32) return nullptr;
  const Rows r = rows_of(request);
  if (r.rows == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_cross_entropy_backward(), "loading a kernel");
  return make_plan([r](const Launch& launch) {
    check_cuda(device::launch_cross_entropy_backward(input<float>(launch, 0), input<long long>(launch, 1),
                                                     input<float>(launch, 2), input<float>(launch, 3),
                                                     output<float>(launch, 0), r.rows, r.classes, stream_of(launch)),
               "launching a kernel");
  });
}

}  // namespace

void register_cuda_cross_entropy(KernelTable& table) {
  const Storable forward{.narrow_in = numbered({0})}, backward{.narrow_in = numbered({0}), .narrow_out = numbered({0})};
  const auto add = [&](const char* op, auto plan, const Storable& storable) {
    table.add(op, DeviceKind::cuda, {"mixed", Accepts::contiguous, plan});
    cuda::add_storable(op, storable);
  };
  add("cross_entropy_sum", mixed_planner(false), forward);
  add("cross_entropy_backward", mixed_backward_planner(false), backward);
  add("cross_entropy_weighted", mixed_planner(true), forward);
  add("cross_entropy_weighted_backward", mixed_backward_planner(true), backward);
  table.add("cross_entropy_sum", DeviceKind::cuda, {"rows", Accepts::contiguous, plan_cross_entropy});
  table.add("cross_entropy_backward", DeviceKind::cuda, {"rows", Accepts::contiguous, plan_cross_entropy_backward});
}

}  // namespace starling::kernels
