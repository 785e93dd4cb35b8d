#include "starling/ops/api/rnn.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/recurrent.h"
#include "starling/ops/def/attrs/rnn.h"

namespace starling::kernels {
namespace {

using reference::plan_recurrent;

struct Forward {
  bool relu;
  template <class T>
  void operator()(const reference::Recurrent<T>& r) const {
    const RecurrentSteps& s = r.steps;
    const auto h = s.hidden;
    const auto gx = r.in(0, h), h0 = r.in(2, h), hs = r.out(0, h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      hs.copy(s.first_slot(), n, h0, 0);
      for (std::int64_t i = 0; i < s.steps; ++i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        for (std::int64_t j = 0; j < h; ++j) {
          double q = hs.get(from, n, j);
          if (s.active(t, n)) {
            const double x = gx.get(t, n, j) + r.product(1, j, hs, from, n);
            q = relu ? std::max(x, 0.0) : std::tanh(x);
          }
          hs.set(to, n, j, q);
        }
      }
    }
  }
};

double slope(double y, bool relu) { return relu ? (y > 0 ? 1.0 : 0.0) : 1 - y * y; }

struct Backward {
  bool relu;
  template <class T>
  void operator()(const reference::Recurrent<T>& r) const {
    const RecurrentSteps& s = r.steps;
    const auto h = s.hidden;
    const auto dhs = r.in(0, h), hs = r.in(2, h), dgx = r.out(0, h), dh = r.out(1, h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      dh.copy(s.last_slot(), n, dhs, s.last_slot());
      for (std::int64_t i = s.steps - 1; i >= 0; --i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        const bool active = s.active(t, n);
        for (std::int64_t j = 0; j < h; ++j)
          dgx.set(t, n, j, active ? dh.get(to, n, j) * slope(hs.get(to, n, j), relu) : 0);
        for (std::int64_t j = 0; j < h; ++j) {
          const double back = active ? r.product_back(1, j, dgx, t, n) : dh.get(to, n, j);
          dh.set(from, n, j, dhs.get(from, n, j) + back);
        }
      }
    }
  }
};

struct Tangent {
  bool relu;
  template <class T>
  void operator()(const reference::Recurrent<T>& r) const {
    const RecurrentSteps& s = r.steps;
    const auto h = s.hidden;
    const auto ugx = r.in(0, h), uh = r.in(1, h), hs = r.in(3, h), ths = r.out(0, h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      ths.copy(s.first_slot(), n, uh, s.first_slot());
      for (std::int64_t i = 0; i < s.steps; ++i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        for (std::int64_t j = 0; j < h; ++j) {
          double q = ths.get(from, n, j);
          if (s.active(t, n)) q = (ugx.get(t, n, j) + r.product(2, j, ths, from, n)) * slope(hs.get(to, n, j), relu);
          ths.set(to, n, j, uh.get(to, n, j) + q);
        }
      }
    }
  }
};

}  // namespace

void register_reference_rnn(KernelTable& table) {
  const auto add = [&]<class Body>(const char* op, Body, std::size_t lengths, auto states) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, [=](const PlanRequest& request) {
                const auto& a = request.attrs.as<op::RnnLayerAttrs>();
                return plan_recurrent(request, states(request), a.reverse, lengths, Body{a.relu});
              }));
  };
  add("rnn_layer", Forward(), 3, [](const PlanRequest& request) { return request.out[0].shape; });
  add("rnn_layer_backward", Backward(), 3, [](const PlanRequest& request) { return request.in[0].shape; });
  add("rnn_layer_tangent", Tangent(), 4, [](const PlanRequest& request) { return request.out[0].shape; });
}

}  // namespace starling::kernels
