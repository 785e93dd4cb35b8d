#include <algorithm>
#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/local_norm.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

struct Gaussian {
  std::int64_t n, c, h, w, size;
  double sigma;
  Gaussian(const Shape& x, std::int64_t window_size, double deviation)
      : n(x[0]), c(x[1]), h(x[2]), w(x[3]), size(window_size), sigma(deviation) {}

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

void register_reference_local_contrast_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("local_contrast_norm", plan_contrast);
  add("gaussian_mean", plan_mean);
  add("gaussian_mean_backward", plan_mean_backward);
}

}  // namespace starling::kernels
