#include "starling/ops/def/attrs/shared_update.h"

#include "starling/kernels/cuda/product_plans.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// The product's epilogue steps its own rows; the other rows are copied where the result is not the weight itself.
std::unique_ptr<Plan> plan_matmul_sgd_rows(const PlanRequest& request) {
  if (!cuda::all_f32(request.in) || !cuda::is_product(request)) return nullptr;
  const auto a = request.attrs.as<op::RowsSgdAttrs>();
  const std::size_t bytes = bytes_of(request.in[0]);
  const std::int64_t skipped = a.begin * request.in[0].shape[1];
  cuda::ProductSpec spec = cuda::product_spec(request.in[2], request.in[3], true, false);
  spec.epilogue = device::Epilogue::sgd;
  std::shared_ptr<const Plan> product = cuda::plan_product(spec, 2, [a, skipped](device::Gemm& gemm, const Launch& l) {
    gemm.w = cuda::input<float>(l, 0) + skipped;
    gemm.v = cuda::input<float>(l, 1) + skipped;
    gemm.w_out = cuda::output<float>(l, 0) + skipped;
    gemm.v_out = cuda::output<float>(l, 1) + skipped;
    gemm.lr = cuda::input<float>(l, 4);
    gemm.momentum = static_cast<float>(a.momentum);
    gemm.decay = static_cast<float>(a.weight_decay);
  });
  return make_plan(product->scratch_bytes, [product, bytes](const Launch& launch) {
    for (std::size_t k : {0, 1}) {
      if (launch.in[k] == launch.out[k] || bytes == 0) continue;
      check_cuda(cudaMemcpyAsync(launch.out[k], launch.in[k], bytes, cudaMemcpyDeviceToDevice, cuda::stream_of(launch)),
                 "copying a weight");
    }
    product->run(launch);
  });
}

}  // namespace

void register_cuda_shared_update(KernelTable& table) {
  table.add("matmul_sgd_rows", DeviceKind::cuda, {"gemm", Accepts::contiguous, plan_matmul_sgd_rows});
}

}  // namespace starling::kernels
