#include "starling/kernels/cuda/recurrent_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/def/rnn.h"

namespace starling::kernels {
namespace {

using cuda::RecurrentPass;

// (gx, w, h0, c0, lengths?) → (hs, cs, gates)
void forward(const RecurrentPass& p, const Launch& l) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 0, s.first_slot()), p.in(l, 2, 0));
  p.copy(l, p.out(l, 1, s.first_slot()), p.in(l, 3, 0));
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    const float* product = p.multiply(l, p.out(l, 0, from));
    cuda::enqueue_step(p, l, t,
                       device::LstmForward{p.in(l, 0, t, 4), product, p.out(l, 1, from), p.out(l, 0, from),
                                           p.out(l, 0, to), p.out(l, 1, to), p.out(l, 2, t, 4)});
  }
}

// (dhs, dcs, dgates, w, gates, cs, lengths?) → (dgx, dh, dc)
void backward(const RecurrentPass& p, const Launch& l) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 1, s.last_slot()), p.in(l, 0, s.last_slot()));
  p.copy(l, p.out(l, 2, s.last_slot()), p.in(l, 1, s.last_slot()));
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    cuda::enqueue_step(
        p, l, t,
        device::LstmBackward{p.in(l, 2, t, 4), p.in(l, 4, t, 4), p.in(l, 5, from), p.in(l, 5, to), p.out(l, 1, to),
                             p.in(l, 1, from), p.out(l, 0, t, 4), p.out(l, 2, from), p.out(l, 2, to)});
    const float* product = p.multiply(l, p.out(l, 0, t, 4));
    cuda::enqueue_step(
        p, l, t, device::StateBackward{product, p.out(l, 1, to), p.in(l, 0, from), nullptr, 0, p.out(l, 1, from)});
  }
}

}  // namespace

void register_cuda_lstm(KernelTable& table) {
  table.add("lstm_layer", DeviceKind::cuda, {"steps", Accepts::contiguous, [](const PlanRequest& r) {
                                               return cuda::plan_recurrent(r, r.out[0].shape,
                                                                           r.attrs.as<op::LayerAttrs>().reverse, 4,
                                                                           false, 1, 4, forward);
                                             }});
  table.add("lstm_layer_backward", DeviceKind::cuda, {"steps", Accepts::contiguous, [](const PlanRequest& r) {
                                                        return cuda::plan_recurrent(
                                                            r, r.out[1].shape, r.attrs.as<op::LayerAttrs>().reverse, 4,
                                                            true, 3, 6, backward);
                                                      }});
}

}  // namespace starling::kernels
