#include "starling/ops/def/fused.h"

#include "starling/kernels/cuda/elementwise.h"
#include "starling/kernels/strides.h"

namespace starling::kernels {
namespace {

// Null if a step has no expression: such a chain cannot run on this device, and the planner reports that.
std::unique_ptr<Plan> plan_fused(const PlanRequest& request) {
  const FusedProgram& program = fused_program(request.attrs.as<op::FusedAttrs>().program);
  if (program.reduces()) return nullptr;
  std::vector<TensorType> given;
  for (const auto& in : request.in) given.push_back({in.dtype, in.shape});
  const auto types = program.infer(given);
  cuda::Chain chain{.shape = request.out[0].shape, .operands = {}, .steps = {}, .outputs = program.outputs};
  for (const auto& in : request.in)
    chain.operands.push_back({in.dtype, broadcast_strides(in.shape, in.strides, chain.shape)});
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const std::string* expression = cuda::elementwise_expression(program.steps[s].op->name);
    if (!expression) return nullptr;
    chain.steps.push_back({*expression, program.steps[s].in, types[request.in.size() + s].dtype});
  }
  return cuda::plan_chain(chain);
}

}  // namespace

void register_cuda_fused(KernelTable& table) {
  table.add("fused", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_fused});
}

}  // namespace starling::kernels
