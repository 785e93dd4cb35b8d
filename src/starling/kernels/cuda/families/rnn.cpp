#include "starling/ops/api/rnn.h"

#include "starling/kernels/cuda/recurrent_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/rnn.h"

namespace starling::kernels {
namespace {

using cuda::RecurrentPass;

// (gx, w, h0, lengths?) → hs
void forward(const RecurrentPass& p, const Launch& l, bool relu) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 0, s.first_slot()), p.in(l, 2, 0));
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    const float* product = p.multiply(l, p.out(l, 0, from));
    cuda::enqueue_step(p, l, t, device::RnnForward{p.in(l, 0, t), product, p.out(l, 0, from), p.out(l, 0, to), relu});
  }
}

// (dhs, w, hs, lengths?) → (dgx, dh)
void backward(const RecurrentPass& p, const Launch& l, bool relu) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 1, s.last_slot()), p.in(l, 0, s.last_slot()));
  for (std::int64_t i = s.steps - 1; i >= 0; --i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    cuda::enqueue_step(p, l, t, device::RnnBackward{p.in(l, 2, to), p.out(l, 1, to), p.out(l, 0, t), relu});
    const float* product = p.multiply(l, p.out(l, 0, t));
    cuda::enqueue_step(
        p, l, t, device::StateBackward{product, p.out(l, 1, to), p.in(l, 0, from), nullptr, 0, p.out(l, 1, from)});
  }
}

// (ugx, uh, w, hs, lengths?) → ths
void tangent(const RecurrentPass& p, const Launch& l, bool relu) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 0, s.first_slot()), p.in(l, 1, s.first_slot()));
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    const float* product = p.multiply(l, p.out(l, 0, from));
    cuda::enqueue_step(p, l, t,
                       device::RnnTangent{p.in(l, 0, t), product, p.in(l, 3, to), p.in(l, 1, to), p.out(l, 0, from),
                                          p.out(l, 0, to), relu});
  }
}

}  // namespace

void register_cuda_rnn(KernelTable& table) {
  table.add("rnn_layer", DeviceKind::cuda,
            {"steps", Accepts::contiguous, [](const PlanRequest& r) {
               const auto& a = r.attrs.as<op::RnnLayerAttrs>();
               return cuda::plan_recurrent(
                   r, r.out[0].shape, a.reverse, 1, false, 1, 3,
                   [relu = a.relu](const RecurrentPass& p, const Launch& l) { forward(p, l, relu); });
             }});
  table.add("rnn_layer_backward", DeviceKind::cuda,
            {"steps", Accepts::contiguous, [](const PlanRequest& r) {
               const auto& a = r.attrs.as<op::RnnLayerAttrs>();
               return cuda::plan_recurrent(
                   r, r.out[1].shape, a.reverse, 1, true, 1, 3,
                   [relu = a.relu](const RecurrentPass& p, const Launch& l) { backward(p, l, relu); });
             }});
  table.add("rnn_layer_tangent", DeviceKind::cuda,
            {"steps", Accepts::contiguous, [](const PlanRequest& r) {
               const auto& a = r.attrs.as<op::RnnLayerAttrs>();
               return cuda::plan_recurrent(
                   r, r.out[0].shape, a.reverse, 1, false, 2, 4,
                   [relu = a.relu](const RecurrentPass& p, const Launch& l) { tangent(p, l, relu); });
             }});
}

}  // namespace starling::kernels
