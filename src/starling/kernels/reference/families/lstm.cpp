#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/recurrent.h"
#include "starling/ops/api/rnn.h"
#include "starling/ops/def/attrs/rnn.h"

namespace starling::kernels {
namespace {

using reference::sigmoid_of;

struct Forward {
  template <class T>
  void operator()(const reference::Recurrent<T>& r) const {
    const RecurrentSteps& s = r.steps;
    const auto h = s.hidden;
    const auto gx = r.in(0, 4 * h), h0 = r.in(2, h), c0 = r.in(3, h);
    const auto hs = r.out(0, h), cs = r.out(1, h), gates = r.out(2, 4 * h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      hs.copy(s.first_slot(), n, h0, 0);
      cs.copy(s.first_slot(), n, c0, 0);
      for (std::int64_t i = 0; i < s.steps; ++i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        if (!s.active(t, n)) {
          hs.copy(to, n, hs, from);
          cs.copy(to, n, cs, from);
          for (std::int64_t j = 0; j < 4 * h; ++j) gates.set(t, n, j, 0);
          continue;
        }
        for (std::int64_t j = 0; j < h; ++j) {
          double a[4];
          for (std::int64_t k = 0; k < 4; ++k) {
            const double x = gx.get(t, n, k * h + j) + r.product(1, k * h + j, hs, from, n);
            a[k] = k == 2 ? std::tanh(x) : sigmoid_of(x);
            gates.set(t, n, k * h + j, a[k]);
          }
          const double c = a[1] * cs.get(from, n, j) + a[0] * a[2];
          cs.set(to, n, j, c);
          hs.set(to, n, j, a[3] * std::tanh(c));
        }
      }
    }
  }
};

struct Backward {
  template <class T>
  void operator()(const reference::Recurrent<T>& r) const {
    const RecurrentSteps& s = r.steps;
    const auto h = s.hidden;
    const auto dhs = r.in(0, h), dcs = r.in(1, h), dgates = r.in(2, 4 * h), gates = r.in(4, 4 * h), cs = r.in(5, h);
    const auto dgx = r.out(0, 4 * h), dh = r.out(1, h), dc = r.out(2, h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      dh.copy(s.last_slot(), n, dhs, s.last_slot());
      dc.copy(s.last_slot(), n, dcs, s.last_slot());
      for (std::int64_t i = s.steps - 1; i >= 0; --i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        const bool active = s.active(t, n);
        for (std::int64_t j = 0; j < h; ++j) {
          const auto a = [&](std::int64_t k) { return gates.get(t, n, k * h + j); };
          const auto set = [&](std::int64_t k, double inner, double slope) {
            dgx.set(t, n, k * h + j, active ? (dgates.get(t, n, k * h + j) + inner) * slope : 0);
          };
          const double tc = std::tanh(cs.get(to, n, j)), into_h = dh.get(to, n, j);
          double into_c = dc.get(to, n, j);
          if (active) into_c += into_h * a(3) * (1 - tc * tc);
          set(0, into_c * a(2), a(0) * (1 - a(0)));
          set(1, into_c * cs.get(from, n, j), a(1) * (1 - a(1)));
          set(2, into_c * a(0), 1 - a(2) * a(2));
          set(3, into_h * tc, a(3) * (1 - a(3)));
          // Stores the cell's gradient after its step, which the steps before read.
          if (active) dc.set(to, n, j, into_c);
          dc.set(from, n, j, dcs.get(from, n, j) + (active ? into_c * a(1) : into_c));
        }
        for (std::int64_t j = 0; j < h; ++j) {
          const double back = active ? r.product_back(3, j, dgx, t, n) : dh.get(to, n, j);
          dh.set(from, n, j, dhs.get(from, n, j) + back);
        }
      }
    }
  }
};

struct Tangent {
  template <class T>
  void operator()(const reference::Recurrent<T>& r) const {
    const RecurrentSteps& s = r.steps;
    const auto h = s.hidden;
    const auto ugx = r.in(0, 4 * h), uh = r.in(1, h), uc = r.in(2, h), gates = r.in(4, 4 * h), cs = r.in(5, h);
    const auto ths = r.out(0, h), tcs = r.out(1, h), tgates = r.out(2, 4 * h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      ths.copy(s.first_slot(), n, uh, s.first_slot());
      tcs.copy(s.first_slot(), n, uc, s.first_slot());
      for (std::int64_t i = 0; i < s.steps; ++i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        const bool active = s.active(t, n);
        for (std::int64_t j = 0; j < h; ++j) {
          double a[4], d[4];
          for (std::int64_t k = 0; k < 4; ++k) {
            a[k] = gates.get(t, n, k * h + j);
            const double slope = k == 2 ? 1 - a[k] * a[k] : a[k] * (1 - a[k]);
            d[k] = active ? slope * (ugx.get(t, n, k * h + j) + r.product(3, k * h + j, ths, from, n)) : 0;
            tgates.set(t, n, k * h + j, d[k]);
          }
          const double tc = std::tanh(cs.get(to, n, j));
          double c = tcs.get(from, n, j), q = ths.get(from, n, j);
          if (active) c = d[1] * cs.get(from, n, j) + a[1] * c + d[0] * a[2] + a[0] * d[2];
          c += uc.get(to, n, j);
          if (active) q = d[3] * tc + a[3] * (1 - tc * tc) * c;
          tcs.set(to, n, j, c);
          ths.set(to, n, j, uh.get(to, n, j) + q);
        }
      }
    }
  }
};

}  // namespace

void register_reference_lstm(KernelTable& table) {
  using reference::add_recurrent;
  add_recurrent(table, "lstm_layer", Forward(), 4, [](const PlanRequest& request) { return request.out[0].shape; });
  add_recurrent(table, "lstm_layer_backward", Backward(), 6,
                [](const PlanRequest& request) { return request.in[0].shape; });
  add_recurrent(table, "lstm_layer_tangent", Tangent(), 6,
                [](const PlanRequest& request) { return request.out[0].shape; });
}

}  // namespace starling::kernels
