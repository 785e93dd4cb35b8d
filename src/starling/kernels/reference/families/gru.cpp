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
    const auto gx = r.in(0, 3 * h), h0 = r.in(3, h);
    const auto hs = r.out(0, h), gates = r.out(1, 4 * h);
    const auto* bias = static_cast<const T*>(r.launch.in[2]);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      hs.copy(s.first_slot(), n, h0, 0);
      for (std::int64_t i = 0; i < s.steps; ++i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        if (!s.active(t, n)) {
          hs.copy(to, n, hs, from);
          for (std::int64_t j = 0; j < 4 * h; ++j) gates.set(t, n, j, 0);
          continue;
        }
        for (std::int64_t j = 0; j < h; ++j) {
          const auto x = [&](std::int64_t k) { return gx.get(t, n, k * h + j); };
          const auto p = [&](std::int64_t k) {
            return r.product(1, k * h + j, hs, from, n) + static_cast<double>(bias[k * h + j]);
          };
          const double reset = sigmoid_of(x(0) + p(0)), z = sigmoid_of(x(1) + p(1)), m = p(2);
          const double fresh = std::tanh(x(2) + reset * m);
          const double saved[] = {reset, z, fresh, m};
          for (std::int64_t k = 0; k < 4; ++k) gates.set(t, n, k * h + j, saved[k]);
          hs.set(to, n, j, (1 - z) * fresh + z * hs.get(from, n, j));
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
    const auto dhs = r.in(0, h), dgates = r.in(1, 4 * h), gates = r.in(3, 4 * h), hs = r.in(4, h);
    const auto dgx = r.out(0, 3 * h), dp = r.out(1, 3 * h), dh = r.out(2, h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      dh.copy(s.last_slot(), n, dhs, s.last_slot());
      for (std::int64_t i = s.steps - 1; i >= 0; --i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        const bool active = s.active(t, n);
        for (std::int64_t j = 0; j < h; ++j) {
          const auto a = [&](std::int64_t k) { return gates.get(t, n, k * h + j); };
          const auto outer = [&](std::int64_t k) { return dgates.get(t, n, k * h + j); };
          const auto set = [&](std::int64_t k, double x, double p) {
            dgx.set(t, n, k * h + j, active ? x : 0);
            dp.set(t, n, k * h + j, active ? p : 0);
          };
          const double into_h = dh.get(to, n, j);
          const double pre_n = (outer(2) + into_h * (1 - a(1))) * (1 - a(2) * a(2));
          const double pre_r = (outer(0) + pre_n * a(3)) * a(0) * (1 - a(0));
          const double pre_z = (outer(1) + into_h * (hs.get(from, n, j) - a(2))) * a(1) * (1 - a(1));
          set(0, pre_r, pre_r);
          set(1, pre_z, pre_z);
          set(2, pre_n, outer(3) + pre_n * a(0));
        }
        for (std::int64_t j = 0; j < h; ++j) {
          const double into_h = dh.get(to, n, j);
          const double back = active ? into_h * gates.get(t, n, h + j) + r.product_back(2, j, dp, t, n) : into_h;
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
    const auto ugx = r.in(0, 3 * h), up = r.in(1, 3 * h), uh = r.in(2, h), gates = r.in(4, 4 * h), hs = r.in(5, h);
    const auto ths = r.out(0, h), tgates = r.out(1, 4 * h);
    for (std::int64_t n = 0; n < s.batch; ++n) {
      ths.copy(s.first_slot(), n, uh, s.first_slot());
      for (std::int64_t i = 0; i < s.steps; ++i) {
        const auto t = s.step(i), from = s.begins(t), to = s.ends(t);
        const bool active = s.active(t, n);
        for (std::int64_t j = 0; j < h; ++j) {
          const auto a = [&](std::int64_t k) { return gates.get(t, n, k * h + j); };
          const auto x = [&](std::int64_t k) { return ugx.get(t, n, k * h + j); };
          const auto p = [&](std::int64_t k) {
            return up.get(t, n, k * h + j) + r.product(3, k * h + j, ths, from, n);
          };
          const double m = p(2), reset = (x(0) + p(0)) * a(0) * (1 - a(0)), z = (x(1) + p(1)) * a(1) * (1 - a(1));
          const double fresh = (x(2) + reset * a(3) + a(0) * m) * (1 - a(2) * a(2));
          const double saved[] = {reset, z, fresh, m};
          for (std::int64_t k = 0; k < 4; ++k) tgates.set(t, n, k * h + j, active ? saved[k] : 0);
          double q = ths.get(from, n, j);
          if (active) q = (1 - a(1)) * fresh - z * a(2) + z * hs.get(from, n, j) + a(1) * q;
          ths.set(to, n, j, uh.get(to, n, j) + q);
        }
      }
    }
  }
};

}  // namespace

void register_reference_gru(KernelTable& table) {
  using reference::add_recurrent;
  add_recurrent(table, "gru_layer", Forward(), 4, [](const PlanRequest& request) { return request.out[0].shape; });
  add_recurrent(table, "gru_layer_backward", Backward(), 5,
                [](const PlanRequest& request) { return request.in[0].shape; });
  add_recurrent(table, "gru_layer_tangent", Tangent(), 6,
                [](const PlanRequest& request) { return request.out[0].shape; });
}

}  // namespace starling::kernels
