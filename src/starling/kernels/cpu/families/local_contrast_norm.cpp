#include <algorithm>
#include <cmath>
#include <vector>

#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/local_norm.h"

namespace starling::kernels {
namespace {

// Gaussian windows over images [h, w]: the weighted mean is `smooth` followed by `scale`, its transpose `scale`
// followed by `smooth`.
template <class T>
struct GaussianImage {
  std::int64_t h, w;
  std::vector<T> weights;                  // from the centre outwards
  std::vector<T> row_scale, column_scale;  // 1 / the weights inside the image

  GaussianImage(std::int64_t height, std::int64_t width, std::int64_t size, double sigma) : h(height), w(width) {
    std::vector<double> exact;
    for (std::int64_t i = 0; i <= size / 2; ++i) {
      const double d = static_cast<double>(i) / sigma;
      exact.push_back(std::exp(-d * d / 2));
      weights.push_back(static_cast<T>(exact.back()));
    }
    row_scale = scales(h, exact);
    column_scale = scales(w, exact);
  }

  void scale(T* image) const {
    for (std::int64_t i = 0; i < h; ++i) {
      const T by = row_scale[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < w; ++j) image[i * w + j] *= by * column_scale[static_cast<std::size_t>(j)];
    }
  }

  // Sums over windows, along rows into `room`, then along columns back into `image`.
  void smooth(T* image, T* room) const {
    const auto reach = static_cast<std::int64_t>(weights.size()) - 1;
    for (std::int64_t i = 0; i < h; ++i) {
      const T* row = image + i * w;
      T* to = room + i * w;
      for (std::int64_t j = 0; j < w; ++j) to[j] = weights[0] * row[j];
      for (std::int64_t k = 1; k <= std::min(reach, w - 1); ++k) {
        const T by = weights[static_cast<std::size_t>(k)];
        for (std::int64_t j = 0; j < w - k; ++j) to[j] += by * row[j + k];
        for (std::int64_t j = k; j < w; ++j) to[j] += by * row[j - k];
      }
    }
    for (std::int64_t i = 0; i < h; ++i) {
      T* to = image + i * w;
      std::fill_n(to, w, T{0});
      for (std::int64_t r = std::max<std::int64_t>(0, i - reach); r <= std::min(h - 1, i + reach); ++r) {
        const T by = weights[static_cast<std::size_t>(std::abs(r - i))];
        for (std::int64_t j = 0; j < w; ++j) to[j] += by * room[r * w + j];
      }
    }
  }

 private:
  static std::vector<T> scales(std::int64_t n, const std::vector<double>& weights) {
    std::vector<T> out;
    const auto reach = static_cast<std::int64_t>(weights.size()) - 1;
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t k = std::max<std::int64_t>(0, i - reach); k <= std::min(n - 1, i + reach); ++k)
        sum += weights[static_cast<std::size_t>(std::abs(k - i))];
      out.push_back(static_cast<T>(1 / sum));
    }
    return out;
  }
};

// Calls body(sample, piece) for every sample.
template <class Body>
void each_sample(std::int64_t samples, std::int64_t elements, int threads, const Body& body) {
  const std::int64_t pieces =
      std::clamp<std::int64_t>(std::min(samples, samples * elements / 4096), 1, std::max(threads, 1));
  parallel_run(static_cast<int>(pieces), [&](int piece) {
    for (std::int64_t s = samples * piece / pieces; s < samples * (piece + 1) / pieces; ++s) body(s, piece);
  });
}

// image = the mean over channels of f(element).
template <class T, class F>
void channel_mean(const T* x, std::int64_t channels, std::int64_t pixels, T* image, const F& f) {
  std::fill_n(image, pixels, T{0});
  for (std::int64_t c = 0; c < channels; ++c, x += pixels) {
    for (std::int64_t i = 0; i < pixels; ++i) image[i] += f(x[i]);
  }
  const T share = T{1} / static_cast<T>(channels);
  for (std::int64_t i = 0; i < pixels; ++i) image[i] *= share;
}

std::unique_ptr<Plan> nothing() {
  return make_plan([](const Launch&) {});
}

std::size_t images(const PlanRequest& r, std::int64_t pixels, std::size_t element) {
  return static_cast<std::size_t>(std::max(r.threads, 1)) * 2 * static_cast<std::size_t>(pixels) * element;
}

std::unique_ptr<Plan> plan_mean(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::GaussianMeanAttrs>();
  const Shape x = r.in[0].shape;
  if (x.numel() == 0) return nothing();
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const std::int64_t pixels = x[2] * x[3];
    return make_plan(images(r, pixels, sizeof(T)),
                     [=, threads = r.threads, g = GaussianImage<T>(x[2], x[3], a.size, a.sigma)](const Launch& l) {
                       each_sample(x[0], x[1] * pixels, threads, [&](std::int64_t s, int piece) {
                         T* image = static_cast<T*>(l.out[0]) + s * pixels;
                         channel_mean(static_cast<const T*>(l.in[0]) + s * x[1] * pixels, x[1], pixels, image,
                                      [](T v) { return v; });
                         g.smooth(image, static_cast<T*>(l.scratch) + piece * 2 * pixels);
                         g.scale(image);
                       });
                     });
  });
}

std::unique_ptr<Plan> plan_mean_backward(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::GaussianMeanGradAttrs>();
  const Shape x = a.shape;
  if (x.numel() == 0) return nothing();
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const std::int64_t pixels = x[2] * x[3];
    return make_plan(images(r, pixels, sizeof(T)),
                     [=, threads = r.threads, g = GaussianImage<T>(x[2], x[3], a.size, a.sigma)](const Launch& l) {
                       each_sample(x[0], x[1] * pixels, threads, [&](std::int64_t s, int piece) {
                         T* image = static_cast<T*>(l.scratch) + piece * 2 * pixels;
                         std::copy_n(static_cast<const T*>(l.in[0]) + s * pixels, pixels, image);
                         g.scale(image);
                         g.smooth(image, image + pixels);
                         T* dx = static_cast<T*>(l.out[0]) + s * x[1] * pixels;
                         const T share = T{1} / static_cast<T>(x[1]);
                         for (std::int64_t i = 0; i < pixels; ++i) image[i] *= share;
                         for (std::int64_t c = 0; c < x[1]; ++c) std::copy_n(image, pixels, dx + c * pixels);
                       });
                     });
  });
}

template <class T>
void contrast_sample(const GaussianImage<T>& g, const T* x, std::int64_t channels, double epsilon, T* image, T* y) {
  const std::int64_t pixels = g.h * g.w;
  channel_mean(x, channels, pixels, image, [](T v) { return v; });
  g.smooth(image, image + pixels);
  g.scale(image);
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t i = 0; i < pixels; ++i) y[c * pixels + i] = x[c * pixels + i] - image[i];
  }
  channel_mean(y, channels, pixels, image, [](T v) { return v * v; });
  g.smooth(image, image + pixels);
  g.scale(image);
  double mean = 0;
  for (std::int64_t i = 0; i < pixels; ++i) {
    image[i] = static_cast<T>(std::sqrt(static_cast<double>(image[i]) + epsilon));
    mean += static_cast<double>(image[i]);
  }
  const T least = static_cast<T>(mean / static_cast<double>(pixels));
  for (std::int64_t i = 0; i < pixels; ++i) image[i] = T{1} / std::max(image[i], least);
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t i = 0; i < pixels; ++i) y[c * pixels + i] *= image[i];
  }
}

std::unique_ptr<Plan> plan_contrast(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::LocalContrastNormAttrs>();
  const Shape x = r.in[0].shape;
  if (x.numel() == 0) return nothing();
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const std::int64_t pixels = x[2] * x[3];
    return make_plan(
        images(r, pixels, sizeof(T)), [=, threads = r.threads, epsilon = a.epsilon,
                                       g = GaussianImage<T>(x[2], x[3], a.size, a.sigma)](const Launch& l) {
          each_sample(x[0], x[1] * pixels, threads, [&](std::int64_t s, int piece) {
            const std::int64_t at = s * x[1] * pixels;
            contrast_sample(g, static_cast<const T*>(l.in[0]) + at, x[1], epsilon,
                            static_cast<T*>(l.scratch) + piece * 2 * pixels, static_cast<T*>(l.out[0]) + at);
          });
        });
  });
}

}  // namespace

void register_cpu_local_contrast_norm(KernelTable& table) {
  const auto add = [&](const char* op, const char* kernel, auto plan) {
    table.add(op, DeviceKind::cpu, {kernel, Accepts::contiguous, plan});
  };
  add("local_contrast_norm", "separable", plan_contrast);
  add("gaussian_mean", "separable", plan_mean);
  add("gaussian_mean_backward", "separable", plan_mean_backward);
}

}  // namespace starling::kernels
