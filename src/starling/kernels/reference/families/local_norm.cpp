#include "starling/ops/api/local_norm.h"

#include <algorithm>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

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

struct Gaussian {
  std::int64_t n, c, h, w, size;
  double sigma;
  Gaussian(const Shape& x, std::int64_t size_, double sigma_)
      : n(x[0]), c(x[1]), h(x[2]), w(x[3]), size(size_), sigma(sigma_) {}

  double weight(std::int64_t offset) const {
    const auto d = static_cast<double>(offset) / sigma;
    return std::exp(-d * d / 2);
  }
  // Calls f(row, column, weight) for the window of a pixel; the weights sum to 1 over the window and the channels.
  template <class F>
  void window(std::int64_t i, std::int64_t j, F&& f) const {
    const std::int64_t radius = size / 2;
    const auto inside = [&](auto&& g) {
      for (std::int64_t r = std::max<std::int64_t>(0, i - radius); r <= std::min(h - 1, i + radius); ++r)
        for (std::int64_t k = std::max<std::int64_t>(0, j - radius); k <= std::min(w - 1, j + radius); ++k)
          g(r, k, weight(r - i) * weight(k - j));
    };
    double total = 0;
    inside([&](auto, auto, double by) { total += by; });
    inside([&](auto r, auto k, double by) { f(r, k, by / (total * static_cast<double>(c))); });
  }
  // The weighted mean of f(sample, channel, row, column).
  template <class F>
  double mean(std::int64_t s, std::int64_t i, std::int64_t j, F&& f) const {
    double sum = 0;
    window(i, j, [&](auto r, auto k, double by) {
      for (std::int64_t ch = 0; ch < c; ++ch) sum += by * f(s, ch, r, k);
    });
    return sum;
  }
  std::int64_t at(std::int64_t s, std::int64_t ch, std::int64_t i, std::int64_t j) const {
    return ((s * c + ch) * h + i) * w + j;
  }
};

std::unique_ptr<Plan> plan_mean(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::GaussianMeanAttrs>();
  const Gaussian g(r.in[0].shape, a.size, a.sigma);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([g](const Launch& l) {
      const auto* x = static_cast<const T*>(l.in[0]);
      auto* y = static_cast<T*>(l.out[0]);
      for (std::int64_t s = 0; s < g.n; ++s)
        for (std::int64_t i = 0; i < g.h; ++i)
          for (std::int64_t j = 0; j < g.w; ++j)
            y[(s * g.h + i) * g.w + j] =
                static_cast<T>(g.mean(s, i, j, [&](auto... at) { return static_cast<double>(x[g.at(at...)]); }));
    });
  });
}

std::unique_ptr<Plan> plan_mean_backward(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::GaussianMeanGradAttrs>();
  const Gaussian g(a.shape, a.size, a.sigma);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([g, total = a.shape.numel()](const Launch& l) {
      const auto* dy = static_cast<const T*>(l.in[0]);
      auto* dx = static_cast<T*>(l.out[0]);
      std::fill_n(dx, total, T{0});
      for (std::int64_t s = 0; s < g.n; ++s)
        for (std::int64_t i = 0; i < g.h; ++i)
          for (std::int64_t j = 0; j < g.w; ++j)
            g.window(i, j, [&](auto row, auto k, double by) {
              for (std::int64_t ch = 0; ch < g.c; ++ch)
                dx[g.at(s, ch, row, k)] += static_cast<T>(by * static_cast<double>(dy[(s * g.h + i) * g.w + j]));
            });
    });
  });
}

// Normalises one sample; v, s: scratch for its elements and pixels.
template <class T>
void contrast_sample(const Gaussian& g, double epsilon, std::int64_t sample, const T* x, double* v, double* s, T* y) {
  const auto in = [&](std::int64_t, std::int64_t ch, std::int64_t i, std::int64_t j) {
    return static_cast<double>(x[g.at(sample, ch, i, j)]);
  };
  for (std::int64_t ch = 0; ch < g.c; ++ch)
    for (std::int64_t i = 0; i < g.h; ++i)
      for (std::int64_t j = 0; j < g.w; ++j) v[g.at(0, ch, i, j)] = in(0, ch, i, j) - g.mean(0, i, j, in);
  double mean = 0;
  for (std::int64_t i = 0; i < g.h; ++i)
    for (std::int64_t j = 0; j < g.w; ++j) {
      const double variance = g.mean(0, i, j, [&](auto... at) { return v[g.at(at...)] * v[g.at(at...)]; });
      mean += s[i * g.w + j] = std::sqrt(variance + epsilon);
    }
  mean /= static_cast<double>(g.h * g.w);
  for (std::int64_t ch = 0; ch < g.c; ++ch)
    for (std::int64_t p = 0; p < g.h * g.w; ++p)
      y[g.at(sample, ch, 0, 0) + p] = static_cast<T>(v[g.at(0, ch, 0, 0) + p] / std::max(s[p], mean));
}

std::unique_ptr<Plan> plan_contrast(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::LocalContrastNormAttrs>();
  const Gaussian g(r.in[0].shape, a.size, a.sigma);
  if (r.in[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  const auto bytes = static_cast<std::size_t>((g.c + 1) * g.h * g.w) * sizeof(double);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan(bytes, [g, epsilon = a.epsilon](const Launch& l) {
      auto* v = static_cast<double*>(l.scratch);
      for (std::int64_t s = 0; s < g.n; ++s)
        contrast_sample(g, epsilon, s, static_cast<const T*>(l.in[0]), v, v + g.c * g.h * g.w,
                        static_cast<T*>(l.out[0]));
    });
  });
}

}  // namespace

void register_reference_local_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("local_response_norm", plan_response);
  add("local_response_norm_backward", plan_response_backward);
  add("channel_window_sum", plan_sum);
  add("local_contrast_norm", plan_contrast);
  add("gaussian_mean", plan_mean);
  add("gaussian_mean_backward", plan_mean_backward);
}

}  // namespace starling::kernels
