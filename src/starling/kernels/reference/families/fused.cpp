#include "starling/ops/fused.h"

#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"

namespace starling {
namespace {

// Values of one element in scratch, step by step. Each is rounded to its dtype, as the plain ops would.
double rounded(DType dtype, double value) {
  return dispatch(dtype, [&]<class T>() { return reference::convert<double>(reference::convert<T>(value)); });
}

std::unique_ptr<Plan> plan_fused(const PlanRequest& request) {
  const FusedProgram& program = fused_program(request.attrs.as<FusedAttrs>().program);
  std::vector<TensorType> in;
  for (const auto& arg : request.in) in.push_back({arg.dtype, arg.shape});
  const auto types = program.infer(in);
  const Shape shape = request.out[0].shape;
  std::vector<Shape> strides;
  for (const auto& arg : request.in) strides.push_back(broadcast_strides(arg.shape, arg.strides, shape));
  return make_plan(types.size() * sizeof(double), [=, &program](const Launch& launch) {
    auto* values = static_cast<double*>(launch.scratch);
    const Shape dense = contiguous_strides(shape);
    for_each_offset(shape, std::array<Shape, 1>{dense}, [&](const std::array<std::int64_t, 1>& at) {
      const auto operands = static_cast<std::size_t>(program.operands);
      for (std::size_t k = 0; k < operands; ++k) {
        std::int64_t place = 0, rest = at[0];
        for (int d = 0; d < shape.rank(); ++d) {
          place += rest / dense[d] * strides[k][d];
          rest %= dense[d];
        }
        values[k] = reference::read<double>(types[k].dtype, launch.in[k], place);
      }
      for (std::size_t s = 0; s < program.steps.size(); ++s) {
        double x[8] = {};
        std::size_t n = 0;
        for (int value : program.steps[s].in) x[n++] = values[value];
        for (double attribute : program.steps[s].attributes) x[n++] = attribute;
        values[operands + s] = rounded(types[operands + s].dtype, program.steps[s].op->scalar(x));
      }
      for (std::size_t o = 0; o < program.outputs.size(); ++o) {
        const int value = program.outputs[o];
        reference::write<double>(types[static_cast<std::size_t>(value)].dtype, launch.out[o], at[0], values[value]);
      }
    });
  });
}

}  // namespace

void register_reference_fused(KernelTable& table) {
  table.add("fused", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_fused));
}

}  // namespace starling
