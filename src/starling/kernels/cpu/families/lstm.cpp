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
  return make_plan(recurrent_scratch(RecurrentCell::lstm, steps.hidden),
                   [steps, lengths = request.in.size() == 5, threads = request.threads](const Launch& l) {
                     recurrent_forward({.cell = RecurrentCell::lstm,
                                        .steps = steps.with_lengths(lengths ? l.in[4] : nullptr, "lstm_layer"),
                                        .gx = input<float>(l, 0),
                                        .w = input<float>(l, 1),
                                        .bias = nullptr,
                                        .h0 = input<float>(l, 2),
                                        .c0 = input<float>(l, 3),
                                        .hs = output<float>(l, 0),
                                        .cs = output<float>(l, 1),
                                        .gates = output<float>(l, 2)},
                                       l.scratch, threads);
                   });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const RecurrentSteps steps = recurrent_steps(request.in[0].shape, request.attrs.as<op::LayerAttrs>().reverse);
  const bool cells = request.in[1].shape.rank() == 3, gates = request.in[2].shape.rank() == 3;
  return make_plan(recurrent_scratch(RecurrentCell::lstm, steps.hidden),
                   [steps, cells, gates, lengths = request.in.size() == 7, threads = request.threads](const Launch& l) {
                     recurrent_backward(
                         {.cell = RecurrentCell::lstm,
                          .steps = steps.with_lengths(lengths ? l.in[6] : nullptr, "lstm_layer_backward"),
                          .dhs = input<float>(l, 0),
                          .dcs = cells ? input<float>(l, 1) : nullptr,
                          .dgates = gates ? input<float>(l, 2) : nullptr,
                          .w = input<float>(l, 3),
                          .gates = input<float>(l, 4),
                          .hs = nullptr,
                          .cs = input<float>(l, 5),
                          .dgx = output<float>(l, 0),
                          .dp = output<float>(l, 0),
                          .dh = output<float>(l, 1),
                          .dc = output<float>(l, 2)},
                         l.scratch, threads);
                   });
}

}  // namespace

void register_cpu_lstm(KernelTable& table) {
  table.add("lstm_layer", DeviceKind::cpu, {"recurrent", Accepts::contiguous, plan_forward});
  table.add("lstm_layer_backward", DeviceKind::cpu, {"recurrent", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
