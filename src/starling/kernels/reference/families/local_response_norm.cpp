#include <algorithm>
#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/local_norm.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// x [n, c, inner]; at(n, c, i) is the offset of an element.
struct Channels {
  std::int64_t n, c, inner;
  explicit Channels(const Shape& x) : n(x[0]), c(x[1]), inner(1) {
    if (n == 0 || c == 0) return;
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
  }
  std::int64_t at(std::int64_t sample, std::int64_t channel, std::int64_t i) const {
    return (sample * c + channel) * inner + i;
  }
  template <class F>
  void each(F&& f) const {
    for (std::int64_t s = 0; s < n; ++s)
      for (std::int64_t ch = 0; ch < c; ++ch)
        for (std::int64_t i = 0; i < inner; ++i) f(s, ch, i);
  }
  // Σ f(channel) over the existing channels of the window.
  template <class F>
  double sum(std::int64_t channel, std::int64_t before, std::int64_t after, F&& f) const {
    double total = 0;
    for (std::int64_t ch = std::max<std::int64_t>(0, channel - before); ch <= std::min(c - 1, channel + after); ++ch)
      total += f(ch);
    return total;
  }
};

std::unique_ptr<Plan> plan_sum(const PlanRequest& r) {
  const auto a = r.attrs.as<op::ChannelWindowAttrs>();
  const Channels x(r.in[0].shape);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& l) {
      const auto* in = static_cast<const T*>(l.in[0]);
      x.each([&](auto s, auto c, auto i) {
        const double sum =
            x.sum(c, a.before, a.after, [&](auto ch) { return static_cast<double>(in[x.at(s, ch, i)]); });
        static_cast<T*>(l.out[0])[x.at(s, c, i)] = static_cast<T>(sum);
      });
    });
  });
}

struct Response {
  op::LocalResponseNormAttrs a;
  Channels x;
  double rate() const { return a.alpha / static_cast<double>(a.size); }
  template <class T>
  double base(const T* in, std::int64_t s, std::int64_t c, std::int64_t i) const {
    return a.k + rate() * x.sum(c, a.size / 2, (a.size - 1) / 2, [&](auto ch) {
      const auto v = static_cast<double>(in[x.at(s, ch, i)]);
      return v * v;
    });
  }
};

std::unique_ptr<Plan> plan_response(const PlanRequest& r) {
  const Response norm{r.attrs.as<op::LocalResponseNormAttrs>(), Channels(r.in[0].shape)};
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([norm](const Launch& l) {
      const auto* in = static_cast<const T*>(l.in[0]);
      norm.x.each([&](auto s, auto c, auto i) {
        const auto at = norm.x.at(s, c, i);
        static_cast<T*>(l.out[0])[at] =
            static_cast<T>(static_cast<double>(in[at]) * std::pow(norm.base(in, s, c, i), -norm.a.beta));
      });
    });
  });
}

std::unique_ptr<Plan> plan_response_backward(const PlanRequest& r) {
  const Response norm{r.attrs.as<op::LocalResponseNormAttrs>(), Channels(r.in[0].shape)};
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([norm](const Launch& l) {
      const auto *dy = static_cast<const T*>(l.in[0]), *in = static_cast<const T*>(l.in[1]);
      const double beta = norm.a.beta;
      norm.x.each([&](auto s, auto c, auto i) {
        const auto at = norm.x.at(s, c, i);
        const double through = norm.x.sum(c, (norm.a.size - 1) / 2, norm.a.size / 2, [&](auto ch) {
          const auto other = norm.x.at(s, ch, i);
          return static_cast<double>(dy[other]) * static_cast<double>(in[other]) *
                 std::pow(norm.base(in, s, ch, i), -beta - 1);
        });
        static_cast<T*>(l.out[0])[at] =
            static_cast<T>(static_cast<double>(dy[at]) * std::pow(norm.base(in, s, c, i), -beta) -
                           2 * norm.rate() * beta * static_cast<double>(in[at]) * through);
      });
    });
  });
}

}  // namespace

void register_reference_local_response_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("local_response_norm", plan_response);
  add("local_response_norm_backward", plan_response_backward);
  add("channel_window_sum", plan_sum);
}

}  // namespace starling::kernels
