#include <algorithm>
#include <cmath>

#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/norm/moments.h"
#include "starling/kernels/cpu/norm/normalize.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"
#include "starling/ops/api/normalize.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;

// x [n, c, ...] as [images, channels, length].
struct Channels {
  std::int64_t images, channels, length = 1;
  explicit Channels(const Shape& shape) : images(shape[0]), channels(shape[1]) {
    for (int d = 2; d < shape.rank(); ++d) length *= shape[d];
  }
  bool columns() const { return length == 1 && channels > 1; }  // channels are contiguous
  double count() const { return static_cast<double>(images * length); }
  Runs runs() const { return {images, channels * length, length}; }
  bool empty() const { return images * channels * length == 0; }
};

// Calls f(begin, end) on ranges of channels, each enough work for one thread.
template <class F>
void for_channels(const Channels& s, F&& f) {
  const std::int64_t work = std::max<std::int64_t>(s.images * s.length, 1);
  parallel_for(s.channels, std::max<std::int64_t>(kGrain / work, 1), f);
}

// Calls f(first, columns) on strips of columns.
template <class F>
void for_strips(const Channels& s, F&& f) {
  const std::int64_t strip = column_strip(s.channels, num_threads());
  const std::int64_t strips = (s.channels + strip - 1) / strip;
  parallel_for(strips, std::max<std::int64_t>(kGrain / (s.images * strip + 1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t t = begin; t < end; ++t) f(t * strip, std::min(strip, s.channels - t * strip));
               });
}

template <class F>
void for_rows(const Channels& s, F&& f) {
  parallel_for(s.images, std::max<std::int64_t>(kGrain / s.channels, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) f(r * s.channels);
  });
}

// Coefficients per channel: dx = dy · a + (x - mean) · b + c. Kept in scratch where channels are columns.
template <class T>
struct Maps {
  T *a, *mean, *b, *c;
  Maps(void* scratch, std::int64_t channels)
      : a(static_cast<T*>(scratch)), mean(a + channels), b(mean + channels), c(b + channels) {}
  static std::size_t bytes(const Channels& s) { return static_cast<std::size_t>(4 * s.channels) * sizeof(T); }
};

template <class T>
double inverse_root(T var, double eps) {
  return 1 / std::sqrt(static_cast<double>(var) + eps);
}

template <class T>
void forward_channels(const Launch& launch, const Channels& s, double eps, const T* weight, const T* bias) {
  const auto fns = normalize_fns<T>();
  const T* x = input<T>(launch, 0);
  for_channels(s, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      double mean = 0, m2 = 0;
      fns.moments(x + c * s.length, s.runs(), &mean, &m2);
      const double var = m2 / s.count(),
                   scale = inverse_root(var, eps) * static_cast<double>(weight ? weight[c] : T{1});
      output<T>(launch, 1)[c] = static_cast<T>(mean);
      output<T>(launch, 2)[c] = static_cast<T>(var);
      fns.affine(x + c * s.length, output<T>(launch, 0) + c * s.length, s.runs(), static_cast<T>(mean),
                 static_cast<T>(scale), bias ? bias[c] : T{0});
    }
  });
}

template <class T>
void forward_columns(const Launch& launch, const Channels& s, double eps, const T* weight, const T* bias) {
  const auto fns = normalize_fns<T>();
  const T* x = input<T>(launch, 0);
  const Maps<T> map(launch.scratch, s.channels);
  for_strips(s, [&](std::int64_t first, std::int64_t cols) {
    double mean[kMomentColumns], m2[kMomentColumns];
    fns.column_moments(x + first, s.images, s.channels, cols, mean, m2);
    for (std::int64_t i = 0; i < cols; ++i) {
      const std::int64_t c = first + i;
      const double var = m2[i] / s.count();
      output<T>(launch, 1)[c] = map.mean[c] = static_cast<T>(mean[i]);
      output<T>(launch, 2)[c] = static_cast<T>(var);
      map.b[c] = static_cast<T>(inverse_root(var, eps) * static_cast<double>(weight ? weight[c] : T{1}));
      map.c[c] = bias ? bias[c] : T{0};
    }
  });
  for_rows(s, [&](std::int64_t at) {
    fns.column_affine(nullptr, x + at, output<T>(launch, 0) + at, s.channels, nullptr, map.mean, map.b, map.c);
  });
}

template <class T>
std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const Channels s(request.in[0].shape);
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  const std::size_t operands = request.in.size();
  return make_plan(s.columns() ? Maps<T>::bytes(s) : 0, [=](const Launch& launch) {
    const T* weight = operands > 1 ? input<T>(launch, 1) : nullptr;
    const T* bias = operands > 2 ? input<T>(launch, 2) : nullptr;
    if (s.empty()) return;
    s.columns() ? forward_columns(launch, s, eps, weight, bias) : forward_channels(launch, s, eps, weight, bias);
  });
}

// Computes the coefficients of a channel's dx from two sums over its gradient, and writes the gradients of weight and
// bias.
template <class T>
struct Backward {
  const Launch& launch;
  Channels s;
  double eps;
  const T* weight;
  bool given_statistics;  // statistics do not depend on x: the sums are separate results

  struct Map {
    T a, b, c;
  };
  Map map(std::int64_t ch, double sum, double dot) const {
    const double r = inverse_root(input<T>(launch, 3)[ch], eps);
    const double a = r * static_cast<double>(weight ? weight[ch] : T{1});
    if (given_statistics) {
      output<T>(launch, 1)[ch] = static_cast<T>(sum);
      output<T>(launch, 2)[ch] = static_cast<T>(dot * r);
      return {static_cast<T>(a), T{0}, T{0}};
    }
    if (weight) {
      output<T>(launch, 1)[ch] = static_cast<T>(dot * r);
      output<T>(launch, 2)[ch] = static_cast<T>(sum);
    }
    return {static_cast<T>(a), static_cast<T>(-a * r * r * dot / s.count()), static_cast<T>(-a * sum / s.count())};
  }

  void channels() const {
    const auto fns = normalize_fns<T>();
    const T *dy = input<T>(launch, 0), *x = input<T>(launch, 1), *mean = input<T>(launch, 2);
    for_channels(s, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const std::int64_t at = c * s.length;
        double sum = 0, dot = 0;
        fns.dots(dy + at, x + at, s.runs(), mean[c], &sum, &dot);
        const Map m = map(c, sum, dot);
        if (given_statistics)
          fns.affine(dy + at, output<T>(launch, 0) + at, s.runs(), T{0}, m.a, T{0});
        else
          fns.affine_back(dy + at, x + at, output<T>(launch, 0) + at, s.runs(), m.a, mean[c], m.b, m.c);
      }
    });
  }

  void columns() const {
    const auto fns = normalize_fns<T>();
    const T *dy = input<T>(launch, 0), *x = input<T>(launch, 1), *mean = input<T>(launch, 2);
    const Maps<T> maps(launch.scratch, s.channels);
    for_strips(s, [&](std::int64_t first, std::int64_t cols) {
      double sum[kMomentColumns], dot[kMomentColumns];
      fns.column_dots(dy + first, x + first, s.images, s.channels, cols, mean + first, sum, dot);
      for (std::int64_t i = 0; i < cols; ++i) {
        const Map m = map(first + i, sum[i], dot[i]);
        maps.a[first + i] = m.a;
        maps.b[first + i] = m.b;
        maps.c[first + i] = m.c;
      }
    });
    for_rows(s, [&](std::int64_t at) {
      fns.column_affine(dy + at, x + at, output<T>(launch, 0) + at, s.channels, maps.a, mean, maps.b, maps.c);
    });
  }
};

template <class T>
std::unique_ptr<Plan> plan_backward(const PlanRequest& request, bool given_statistics) {
  const Channels s(request.in[1].shape);
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  const bool weighted = request.in.size() > 4;
  return make_plan(s.columns() ? Maps<T>::bytes(s) : 0, [=](const Launch& launch) {
    if (s.empty()) {
      for (std::size_t i : {1, 2}) {
        if (given_statistics || weighted) std::fill_n(output<T>(launch, i), s.channels, T{0});
      }
      return;
    }
    const Backward<T> backward{launch, s, eps, weighted ? input<T>(launch, 4) : nullptr, given_statistics};
    s.columns() ? backward.columns() : backward.channels();
  });
}

template <class T>
std::unique_ptr<Plan> plan_infer(const PlanRequest& request) {
  const Channels s(request.in[0].shape);
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  const std::size_t operands = request.in.size();
  return make_plan(Maps<T>::bytes(s), [=](const Launch& launch) {
    if (s.empty()) return;
    const auto fns = normalize_fns<T>();
    const Maps<T> map(launch.scratch, s.channels);
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const double r = inverse_root(input<T>(launch, 2)[c], eps);
      map.b[c] = static_cast<T>(operands > 3 ? r * static_cast<double>(input<T>(launch, 3)[c]) : r);
      map.c[c] = operands > 4 ? input<T>(launch, 4)[c] : T{0};
    }
    const T *x = input<T>(launch, 0), *mean = input<T>(launch, 1);
    T* y = output<T>(launch, 0);
    if (s.columns()) {
      return for_rows(s, [&](std::int64_t at) {
        fns.column_affine(nullptr, x + at, y + at, s.channels, nullptr, mean, map.b, map.c);
      });
    }
    parallel_for(s.images * s.channels, std::max<std::int64_t>(kGrain / s.length, 1),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t c = i % s.channels, at = i * s.length;
                     fns.affine(x + at, y + at, Runs{1, 0, s.length}, mean[c], map.b[c], map.c[c]);
                   }
                 });
  });
}

template <class T>
std::unique_ptr<Plan> plan_squares(const PlanRequest& request) {
  const Channels s(request.in[0].shape);
  return make_plan(static_cast<std::size_t>(2 * s.channels) * sizeof(double), [=](const Launch& launch) {
    T* out = output<T>(launch, 0);
    if (s.empty()) {
      std::fill_n(out, s.channels, T{0});
      return;
    }
    auto* mean = static_cast<double*>(launch.scratch);
    double* m2 = mean + s.channels;
    if (s.columns())
      column_moments(input<T>(launch, 0), 1, s.images, s.channels, mean, m2);
    else
      channel_moments(input<T>(launch, 0), s.images, s.channels, s.length, mean, m2);
    // Sum of squares around another point than the mean: adds the squared distance once per element.
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const double apart = mean[c] - static_cast<double>(input<T>(launch, 1)[c]);
      out[c] = static_cast<T>(m2[c] + s.count() * apart * apart);
    }
  });
}

}  // namespace

void register_cpu_batch_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"channels", Accepts::contiguous, plan});
  };
  const auto back = [](bool given) {
    return plan_by_float([given](const PlanRequest& r) { return plan_backward<float>(r, given); },
                         [given](const PlanRequest& r) { return plan_backward<double>(r, given); });
  };
  add("batch_norm_train", plan_by_float(plan_forward<float>, plan_forward<double>));
  add("batch_norm_train_backward", back(false));
  add("batch_norm_infer", plan_by_float(plan_infer<float>, plan_infer<double>));
  add("batch_norm_infer_backward", back(true));
  add("channel_squares", plan_by_float(plan_squares<float>, plan_squares<double>));
}

}  // namespace starling::kernels
