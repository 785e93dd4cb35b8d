#include "starling/kernels/cuda/device/persistent_lstm.h"
#include "starling/kernels/cuda/recurrent_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/def/attrs/rnn.h"

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

// (ugx, uh, uc, w, gates, cs, lengths?) → (ths, tcs, tgates)
void tangent(const RecurrentPass& p, const Launch& l) {
  const RecurrentSteps& s = p.steps();
  p.copy(l, p.out(l, 0, s.first_slot()), p.in(l, 1, s.first_slot()));
  p.copy(l, p.out(l, 1, s.first_slot()), p.in(l, 2, s.first_slot()));
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
    const float* product = p.multiply(l, p.out(l, 0, from));
    cuda::enqueue_step(p, l, t,
                       device::LstmTangent{p.in(l, 0, t, 4), product, p.in(l, 4, t, 4), p.in(l, 5, from),
                                           p.in(l, 5, to), p.in(l, 1, to), p.in(l, 2, to), p.out(l, 0, from),
                                           p.out(l, 1, from), p.out(l, 0, to), p.out(l, 1, to), p.out(l, 2, t, 4)});
  }
}

// Above this many rows a product for all of them at each step takes less time than clusters that walk row by row.
constexpr std::int64_t kMostPersistentRows = 256;

bool walks_at_once(const PlanRequest& r, const Shape& states, std::size_t lengths) {
  return cuda::RecurrentPass::fits(r, states, lengths) && states[0] <= std::numeric_limits<int>::max() &&
         states[1] > 0 && states[1] <= kMostPersistentRows && states[2] > 0 &&
         states[2] <= device::kMostPersistentUnits;
}

device::LstmSequence sequence(const Shape& states, bool reverse) {
  return {static_cast<int>(states[0] - 1),
          static_cast<int>(states[1]),
          static_cast<int>(states[2]),
          reverse,
          nullptr,
          nullptr};
}

std::unique_ptr<Plan> plan_sequence(const PlanRequest& r) {
  const Shape& states = r.out[0].shape;
  if (!walks_at_once(r, states, 4)) return nullptr;
  check_cuda(device::load_lstm_sequence(static_cast<int>(states[2])), "loading a kernel");
  const auto layer = sequence(states, r.attrs.as<op::LayerAttrs>().reverse);
  const bool has_lengths = r.in.size() > 4;
  return make_plan([layer, has_lengths](const Launch& l) {
    device::LstmSequence here = layer;
    here.w = cuda::input<float>(l, 1);
    here.lengths = has_lengths ? cuda::input<long long>(l, 4) : nullptr;
    const device::LstmSequenceForward f{cuda::input<float>(l, 0),  cuda::input<float>(l, 2),
                                        cuda::input<float>(l, 3),  cuda::output<float>(l, 0),
                                        cuda::output<float>(l, 1), cuda::output<float>(l, 2)};
    check_cuda(device::launch_lstm_sequence(here, f, cuda::stream_of(l)), "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_sequence_backward(const PlanRequest& r) {
  const Shape& states = r.out[1].shape;
  if (!walks_at_once(r, states, 6)) return nullptr;
  check_cuda(device::load_lstm_sequence(static_cast<int>(states[2])), "loading a kernel");
  const auto layer = sequence(states, r.attrs.as<op::LayerAttrs>().reverse);
  const bool has_lengths = r.in.size() > 6, has_dcs = r.in[1].shape.numel() > 0, has_dgates = r.in[2].shape.numel() > 0;
  return make_plan([layer, has_lengths, has_dcs, has_dgates](const Launch& l) {
    device::LstmSequence here = layer;
    here.w = cuda::input<float>(l, 3);
    here.lengths = has_lengths ? cuda::input<long long>(l, 6) : nullptr;
    const device::LstmSequenceBackward f{cuda::input<float>(l, 0),
                                         has_dcs ? cuda::input<float>(l, 1) : nullptr,
                                         has_dgates ? cuda::input<float>(l, 2) : nullptr,
                                         cuda::input<float>(l, 4),
                                         cuda::input<float>(l, 5),
                                         cuda::output<float>(l, 0),
                                         cuda::output<float>(l, 1),
                                         cuda::output<float>(l, 2)};
    check_cuda(device::launch_lstm_sequence(here, f, cuda::stream_of(l)), "launching a kernel");
  });
}

}  // namespace

void register_cuda_lstm(KernelTable& table) {
  table.add("lstm_layer", DeviceKind::cuda, {"sequence", Accepts::contiguous, plan_sequence});
  table.add("lstm_layer_backward", DeviceKind::cuda, {"sequence", Accepts::contiguous, plan_sequence_backward});
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
  table.add("lstm_layer_tangent", DeviceKind::cuda, {"steps", Accepts::contiguous, [](const PlanRequest& r) {
                                                       return cuda::plan_recurrent(r, r.out[0].shape,
                                                                                   r.attrs.as<op::LayerAttrs>().reverse,
                                                                                   4, false, 3, 6, tangent);
                                                     }});
}

}  // namespace starling::kernels
