#include "starling/ops/api/rnn.h"

#include "starling/kernels/cpu/recurrent/recurrent.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"
#include "starling/ops/def/attrs/rnn.h"

namespace starling::kernels {
namespace {

RecurrentCell cell_of(const PlanRequest& request) {
  return request.attrs.as<op::RnnLayerAttrs>().relu ? RecurrentCell::relu : RecurrentCell::tanh;
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const RecurrentSteps steps = recurrent_steps(request.out[0].shape, request.attrs.as<op::RnnLayerAttrs>().reverse);
  const RecurrentCell cell = cell_of(request);
  return make_plan(recurrent_scratch(cell, steps.hidden),
                   [steps, cell, lengths = request.in.size() == 4, threads = request.threads](const Launch& l) {
                     recurrent_forward({.cell = cell,
                                        .steps = steps.with_lengths(lengths ? l.in[3] : nullptr, "rnn_layer"),
                                        .gx = input<float>(l, 0),
                                        .w = input<float>(l, 1),
                                        .bias = nullptr,
                                        .h0 = input<float>(l, 2),
                                        .c0 = nullptr,
                                        .hs = output<float>(l, 0),
                                        .cs = nullptr,
                                        .gates = nullptr},
                                       l.scratch, threads);
                   });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const RecurrentSteps steps = recurrent_steps(request.in[0].shape, request.attrs.as<op::RnnLayerAttrs>().reverse);
  const RecurrentCell cell = cell_of(request);
  return make_plan(recurrent_scratch(cell, steps.hidden),
                   [steps, cell, lengths = request.in.size() == 4, threads = request.threads](const Launch& l) {
                     recurrent_backward({.cell = cell,
                                         .steps = steps.with_lengths(lengths ? l.in[3] : nullptr, "rnn_layer_backward"),
                                         .dhs = input<float>(l, 0),
                                         .dcs = nullptr,
                                         .dgates = nullptr,
                                         .w = input<float>(l, 1),
                                         .gates = nullptr,
                                         .hs = input<float>(l, 2),
                                         .cs = nullptr,
                                         .dgx = output<float>(l, 0),
                                         .dp = output<float>(l, 0),
                                         .dh = output<float>(l, 1),
                                         .dc = nullptr},
                                        l.scratch, threads);
                   });
}

}  // namespace

void register_cpu_rnn(KernelTable& table) {
  table.add("rnn_layer", DeviceKind::cpu, {"recurrent", Accepts::contiguous, plan_forward});
  table.add("rnn_layer_backward", DeviceKind::cpu, {"recurrent", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
