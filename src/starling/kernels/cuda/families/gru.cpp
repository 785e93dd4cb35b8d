#include "starling/kernels/cuda/recurrent_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/def/attrs/rnn.h"

namespace starling::kernels {
namespace {

using cuda::RecurrentPass;

// (gx, w, b, h0, lengths?) → (hs, gates)
void forward(const RecurrentPass& p, const Launch& l) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 0, s.first_slot()), p.in(l, 3, 0));
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    const float* product = p.multiply(l, p.out(l, 0, from));
    cuda::enqueue_step(p, l, t,
                       device::GruForward{p.in(l, 0, t, 3), product, cuda::input<float>(l, 2), p.out(l, 0, from),
                                          p.out(l, 0, to), p.out(l, 1, t, 4)});
  }
}

// (dhs, dgates, w, gates, hs, lengths?) → (dgx, dp, dh)
void backward(const RecurrentPass& p, const Launch& l) {
  const RecurrentSteps& s = p.steps();
  const int hidden = static_cast<int>(s.hidden);
  p.copy(l, p.out(l, 2, s.last_slot()), p.in(l, 0, s.last_slot()));
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    cuda::enqueue_step(p, l, t,
                       device::GruBackward{p.in(l, 1, t, 4), p.in(l, 3, t, 4), p.in(l, 4, from), p.out(l, 2, to),
                                           p.out(l, 0, t, 3), p.out(l, 1, t, 3)});
    const float* product = p.multiply(l, p.out(l, 1, t, 3));
    cuda::enqueue_step(p, l, t,
                       device::StateBackward{product, p.out(l, 2, to), p.in(l, 0, from), p.in(l, 3, t, 4) + hidden,
                                             4 * hidden, p.out(l, 2, from)});
  }
}

// (ugx, up, uh, w, gates, hs, lengths?) → (ths, tgates)
void tangent(const RecurrentPass& p, const Launch& l) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 0, s.first_slot()), p.in(l, 2, s.first_slot()));
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    const float* product = p.multiply(l, p.out(l, 0, from));
    cuda::enqueue_step(
        p, l, t,
        device::GruTangent{p.in(l, 0, t, 3), p.in(l, 1, t, 3), product, p.in(l, 4, t, 4), p.in(l, 5, from),
                           p.in(l, 2, to), p.out(l, 0, from), p.out(l, 0, to), p.out(l, 1, t, 4)});
  }
}

}  // namespace

void register_cuda_gru(KernelTable& table) {
  table.add("gru_layer", DeviceKind::cuda, {"steps", Accepts::contiguous, [](const PlanRequest& r) {
                                              return cuda::plan_recurrent(r, r.out[0].shape,
                                                                          r.attrs.as<op::LayerAttrs>().reverse, 3,
                                                                          false, 1, 4, forward);
                                            }});
  table.add("gru_layer_backward", DeviceKind::cuda, {"steps", Accepts::contiguous, [](const PlanRequest& r) {
                                                       return cuda::plan_recurrent(r, r.out[2].shape,
                                                                                   r.attrs.as<op::LayerAttrs>().reverse,
                                                                                   3, true, 2, 5, backward);
                                                     }});
  table.add("gru_layer_tangent", DeviceKind::cuda, {"steps", Accepts::contiguous, [](const PlanRequest& r) {
                                                      return cuda::plan_recurrent(r, r.out[0].shape,
                                                                                  r.attrs.as<op::LayerAttrs>().reverse,
                                                                                  3, false, 3, 6, tangent);
                                                    }});
}

}  // namespace starling::kernels
