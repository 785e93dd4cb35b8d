#include "starling/kernels/cpu/recurrent/recurrent.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/def/attrs/rnn.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const RecurrentSteps steps = recurrent_steps(request.out[0].shape, request.attrs.as<op::LayerAttrs>().reverse);
  return make_plan(recurrent_scratch(RecurrentCell::gru, steps.hidden),
                   [steps, lengths = request.in.size() == 5, threads = request.threads](const Launch& l) {
                     recurrent_forward({.cell = RecurrentCell::gru,
                                        .steps = steps.with_lengths(lengths ? l.in[4] : nullptr, "gru_layer"),
                                        .gx = input<float>(l, 0),
                                        .w = input<float>(l, 1),
                                        .bias = input<float>(l, 2),
                                        .h0 = input<float>(l, 3),
                                        .c0 = nullptr,
                                        .hs = output<float>(l, 0),
                                        .cs = nullptr,
                                        .gates = output<float>(l, 1)},
                                       l.scratch, threads);
                   });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const RecurrentSteps steps = recurrent_steps(request.in[0].shape, request.attrs.as<op::LayerAttrs>().reverse);
  const bool gates = request.in[1].shape.rank() == 3;
  return make_plan(recurrent_scratch(RecurrentCell::gru, steps.hidden),
                   [steps, gates, lengths = request.in.size() == 6, threads = request.threads](const Launch& l) {
                     recurrent_backward({.cell = RecurrentCell::gru,
                                         .steps = steps.with_lengths(lengths ? l.in[5] : nullptr, "gru_layer_backward"),
                                         .dhs = input<float>(l, 0),
                                         .dcs = nullptr,
                                         .dgates = gates ? input<float>(l, 1) : nullptr,
                                         .w = input<float>(l, 2),
                                         .gates = input<float>(l, 3),
                                         .hs = input<float>(l, 4),
                                         .cs = nullptr,
                                         .dgx = output<float>(l, 0),
                                         .dp = output<float>(l, 1),
                                         .dh = output<float>(l, 2),
                                         .dc = nullptr},
                                        l.scratch, threads);
                   });
}

}  // namespace

void register_cpu_gru(KernelTable& table) {
  table.add("gru_layer", DeviceKind::cpu, {"recurrent", Accepts::contiguous, plan_forward});
  table.add("gru_layer_backward", DeviceKind::cpu, {"recurrent", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
