#include "starling/ops/api/row_sparse.h"

#include "starling/kernels/cuda/row_updates.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_sgd_rows(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SgdAttrs>();
  cuda::RowUpdate update{.targets = 2, .scalars = {cuda::c_type(request.in[4].dtype)}};
  update.names.real("DECAY", a.weight_decay).real("MOMENTUM", a.momentum).number("NESTEROV", a.nesterov);
  update.step =
      "  const double slope = sum + DECAY * (double)x0, now = MOMENTUM * (double)x1 + slope;\n"
      "  x0 = (T)((double)x0 - (double)*b0 * (NESTEROV ? slope + MOMENTUM * now : now));\n  x1 = (T)now; (void)g;";
  return cuda::plan_row_update(request, update);
}

}  // namespace

void register_cuda_row_sparse(KernelTable& table) {
  table.add("sgd_update_rows", DeviceKind::cuda, {"rows", Accepts::contiguous, plan_sgd_rows});
}

}  // namespace starling::kernels
