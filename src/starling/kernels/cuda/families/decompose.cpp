#include "starling/kernels/cuda/matrix_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using device::Matrices;

bool is_empty(const PlanRequest& request) { return request.in[0].shape.numel() == 0; }

std::unique_ptr<Plan> plan_qr(const PlanRequest& request) {
  const auto m = cuda::matrices_of(request.in[0]);
  if (!m) return nullptr;
  if (is_empty(request)) return make_plan([](const Launch&) {});
  check_cuda(device::load_matrix_solve(), "loading a kernel");
  return cuda::plan_matrices(device::qr_scratch(*m), [m = *m](const Launch& launch) {
    return device::launch_qr(m, {launch.in[0], launch.out[0], launch.out[1]}, launch.scratch, cuda::stream_of(launch));
  });
}

std::unique_ptr<Plan> plan_svd(const PlanRequest& request) {
  const auto m = cuda::matrices_of(request.in[0]);
  if (!m) return nullptr;
  if (is_empty(request)) return make_plan([](const Launch&) {});
  check_cuda(device::load_matrix_jacobi(), "loading a kernel");
  return cuda::plan_matrices(device::svd_scratch(*m), [m = *m](const Launch& launch) {
    return device::launch_svd(m, {launch.in[0], launch.out[0], launch.out[1], launch.out[2]}, launch.scratch,
                              cuda::stream_of(launch));
  });
}

std::unique_ptr<Plan> plan_eigh(const PlanRequest& request) {
  const auto m = cuda::matrices_of(request.in[0]);
  if (!m) return nullptr;
  if (is_empty(request)) return make_plan([](const Launch&) {});
  check_cuda(device::load_matrix_jacobi(), "loading a kernel");
  return cuda::plan_matrices(device::eigen_scratch(*m), [m = *m](const Launch& launch) {
    return device::launch_eigen(m, {launch.in[0], launch.out[0], launch.out[1]}, launch.scratch,
                                cuda::stream_of(launch));
  });
}

}  // namespace

void register_cuda_decompose(KernelTable& table) {
  table.add("qr", DeviceKind::cuda, {"block", Accepts::contiguous, plan_qr});
  table.add("svd", DeviceKind::cuda, {"block", Accepts::contiguous, plan_svd});
  table.add("eigh", DeviceKind::cuda, {"block", Accepts::contiguous, plan_eigh});
}

}  // namespace starling::kernels
