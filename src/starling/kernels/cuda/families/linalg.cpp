#include "starling/ops/api/linalg.h"

#include "starling/kernels/cuda/matrix_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using device::Matrices;

std::unique_ptr<Plan> plan_solve(const PlanRequest& request) {
  const auto m = cuda::matrices_of(request.in[0]);
  const std::int64_t columns = request.out[0].shape.back();
  if (!m || columns > std::numeric_limits<int>::max() - m->rows) return nullptr;
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  const int k = static_cast<int>(columns);
  check_cuda(device::load_matrix_solve(), "loading a kernel");
  return cuda::plan_matrices(device::solve_scratch(*m, k), [m = *m, k,
                                                            inverts = request.in.size() == 1](const Launch& launch) {
    const device::MatrixSolve solve{launch.in[0], inverts ? nullptr : launch.in[1], launch.out[0], nullptr, nullptr, k};
    return device::launch_solve(m, solve, launch.scratch, cuda::stream_of(launch));
  });
}

std::unique_ptr<Plan> plan_determinant(const PlanRequest& request) {
  const auto m = cuda::matrices_of(request.in[0]);
  if (!m) return nullptr;
  if (m->count == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_matrix_solve(), "loading a kernel");
  return cuda::plan_matrices(device::solve_scratch(*m, 0), [m = *m,
                                                            logs = request.out.size() == 2](const Launch& launch) {
    const device::MatrixSolve solve{launch.in[0], nullptr, nullptr, launch.out[0], logs ? launch.out[1] : nullptr, 0};
    return device::launch_solve(m, solve, launch.scratch, cuda::stream_of(launch));
  });
}

std::unique_ptr<Plan> plan_cholesky(const PlanRequest& request) {
  const auto m = cuda::matrices_of(request.in[0]);
  if (!m) return nullptr;
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_matrix_solve(), "loading a kernel");
  return cuda::plan_matrices(device::cholesky_scratch(*m), [m = *m,
                                                            upper = request.attrs.as<op::CholeskyAttrs>().upper](
                                                               const Launch& launch) {
    return device::launch_cholesky(m, {launch.in[0], launch.out[0], upper}, launch.scratch, cuda::stream_of(launch));
  });
}

}  // namespace

void register_cuda_linalg(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cuda, {"block", Accepts::contiguous, plan});
  };
  add("inverse", plan_solve);
  add("solve", plan_solve);
  add("determinant", plan_determinant);
  add("slogdet", plan_determinant);
  add("cholesky", plan_cholesky);
}

}  // namespace starling::kernels
