#include "starling/ops/def/attrs/fused.h"

#include <memory>

#include "starling/kernels/cpu/fused/fused_runner.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_fused(const PlanRequest& request) {
  const FusedProgram& program = fused_program(request.attrs.as<op::FusedAttrs>().program);
  std::vector<TensorType> given;
  for (const auto& arg : request.in) given.push_back({arg.dtype, arg.shape});
  const auto types = program.infer(given);
  if (types.size() > FusedRunner::kMaxValues) return nullptr;
  auto grid = fused_grid(program, request.in, types);
  if (!grid) return nullptr;
  auto schedule = fused_schedule(program, *grid, types);
  if (!schedule) return nullptr;
  auto runner = std::make_shared<const FusedRunner>(std::move(*grid), std::move(*schedule), request.threads);
  return make_plan(runner->scratch_bytes(), [runner](const Launch& l) { runner->run(l.in, l.out, l.scratch); });
}

}  // namespace

void register_cpu_fused(KernelTable& table) {
  table.add("fused", DeviceKind::cpu, {"chain", Accepts::strided, plan_fused});
}

}  // namespace starling::kernels
