#include "starling/ops/def/attrs/shared_update.h"

#include "starling/kernels/cpu/gemm/product.h"
#include "starling/kernels/cpu/update/in_place.h"
#include "starling/kernels/cpu/update/sgd.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"

namespace starling::kernels {
namespace {

struct Rows {
  std::int64_t whole;     // elements of the whole weight
  std::int64_t skipped;   // elements before the rows
  std::int64_t elements;  // of the rows

  explicit Rows(const PlanRequest& request)
      : whole(request.in[0].shape.numel()),
        skipped(request.attrs.as<op::RowsSgdAttrs>().begin * request.in[0].shape[1]),
        elements(request.in[2].shape[1] * request.in[0].shape[1]) {}
};

std::unique_ptr<Plan> plan_f64(const PlanRequest& request, const BatchedProduct& product) {
  const auto& a = request.attrs.as<op::RowsSgdAttrs>();
  const SgdOptions options{a.momentum, a.weight_decay, false};
  const Rows rows(request);
  const std::size_t aligned = (static_cast<std::size_t>(rows.elements) * sizeof(double) + 63) / 64 * 64;
  const DType rate = request.in[4].dtype;
  return make_plan(aligned + product.scratch_bytes(), [=](const Launch& l) {
    auto* gradient = static_cast<double*>(l.scratch);
    gemm(product.plan, static_cast<const double*>(l.in[2]), static_cast<const double*>(l.in[3]), gradient, false,
         static_cast<std::byte*>(l.scratch) + aligned);
    const SgdTensor<double> tensor{in_place<double>(l, 0, rows.whole) + rows.skipped, gradient,
                                   in_place<double>(l, 1, rows.whole) + rows.skipped, rows.elements};
    sgd_update<double>({&tensor, 1}, read_rate(rate, l.in[4]), options);
  });
}

std::unique_ptr<Plan> plan_matmul_sgd_rows(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::RowsSgdAttrs>();
  if (!request.in[0].contiguous() || !request.in[1].contiguous()) return nullptr;
  const auto product = plan_product(request.in[2], request.in[3], true, false, request.threads);
  if (!product || !product->batch.empty()) return nullptr;
  if (request.in[0].dtype == DType::f64) return plan_f64(request, *product);
  if (request.in[0].dtype != DType::f32) return nullptr;
  const Rows rows(request);
  const auto momentum = static_cast<float>(a.momentum), decay = static_cast<float>(a.weight_decay);
  return make_plan(product->scratch_bytes(), [=, plan = product->plan](const Launch& l) {
    const GemmSgd sgd{in_place<float>(l, 0, rows.whole) + rows.skipped,
                      in_place<float>(l, 1, rows.whole) + rows.skipped, static_cast<const float*>(l.in[4]), momentum,
                      decay};
    GemmEpilogue epilogue;
    epilogue.sgd = &sgd;
    gemm(plan, static_cast<const float*>(l.in[2]), static_cast<const float*>(l.in[3]), nullptr, epilogue, l.scratch);
  });
}

}  // namespace

void register_cpu_shared_update(KernelTable& table) {
  table.add("matmul_sgd_rows", DeviceKind::cpu, {"gemm", Accepts::contiguous, plan_matmul_sgd_rows});
}

}  // namespace starling::kernels
