#include "starling/dist/ps/vectors.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"

namespace starling::dist::ps {
namespace {

template <class F>
auto for_reals(DType dtype, F&& f) {
  check(dtype == DType::f32 || dtype == DType::f64, "[ps] expected vectors of f32 or f64, got {}", name(dtype));
  return dtype == DType::f32 ? f(float{}) : f(double{});
}

}  // namespace

Tensor KeyVectors::at(int vector, const Tensor& weights) {
  if (vector == 0) return weights;
  Tensor& found = vectors_[vector];
  if (!found.defined()) found = zeros(weights.shape(), weights.dtype());
  return found;
}

bool KeyVectors::add_portion(int vector, std::int64_t portion, double alpha, const Tensor& gradient) {
  Round& round = rounds_[vector];
  if (portion < round.first || !round.added.add(portion)) return false;
  vector_axpy(at(vector, gradient), alpha, gradient);
  return true;
}

double vector_dot(const Tensor& a, const Tensor& b) {
  return for_reals(a.dtype(), [&]<class T>(T) {
    const T *x = a.data<T>(), *y = b.data<T>();
    double sums[4] = {0, 0, 0, 0};  // independent, so that they overlap
    const std::int64_t n = a.numel();
    for (std::int64_t i = 0; i < n; ++i) sums[i % 4] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  });
}

double vector_sum_abs(const Tensor& a) {
  return for_reals(a.dtype(), [&]<class T>(T) {
    double sum = 0;
    for (std::int64_t i = 0; i < a.numel(); ++i) sum += std::abs(static_cast<double>(a.data<T>()[i]));
    return sum;
  });
}

void vector_axpy(const Tensor& a, double alpha, const Tensor& b) {
  for_reals(a.dtype(), [&]<class T>(T) {
    T* x = a.data<T>();
    const T* y = b.data<T>();
    const auto factor = static_cast<T>(alpha);
    for (std::int64_t i = 0; i < a.numel(); ++i) x[i] += factor * y[i];
    return 0;
  });
}

void vector_scale(const Tensor& a, double alpha) {
  for_reals(a.dtype(), [&]<class T>(T) {
    T* x = a.data<T>();
    for (std::int64_t i = 0; i < a.numel(); ++i) x[i] *= static_cast<T>(alpha);
    return 0;
  });
}

void vector_fill(const Tensor& a, double value) {
  for_reals(a.dtype(), [&]<class T>(T) {
    std::fill_n(a.data<T>(), a.numel(), static_cast<T>(value));
    return 0;
  });
}

// At a weight of 0 the penalty has two slopes: downhill is the way, if there is one, on which it is outweighed.
void vector_pseudo_gradient(const Tensor& a, double penalty, const Tensor& weights, const Tensor& gradient) {
  for_reals(a.dtype(), [&]<class T>(T) {
    T* to = a.data<T>();
    const T *x = weights.data<T>(), *g = gradient.data<T>();
    const auto c = static_cast<T>(penalty);
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      if (x[i] != 0)
        to[i] = g[i] + (x[i] > 0 ? c : -c);
      else
        to[i] = std::max(g[i] - c, T{0}) + std::min(g[i] + c, T{0});
    }
    return 0;
  });
}

void vector_fill_zeros(const Tensor& a, const Tensor& b) {
  for_reals(a.dtype(), [&]<class T>(T) {
    T* x = a.data<T>();
    const T* y = b.data<T>();
    for (std::int64_t i = 0; i < a.numel(); ++i) x[i] = x[i] == 0 ? y[i] : x[i];
    return 0;
  });
}

void vector_project_orthant(const Tensor& a, const Tensor& b) {
  for_reals(a.dtype(), [&]<class T>(T) {
    T* x = a.data<T>();
    const T* y = b.data<T>();
    const auto sign = [](T v) { return (v > 0) - (v < 0); };
    for (std::int64_t i = 0; i < a.numel(); ++i) x[i] = sign(x[i]) == sign(y[i]) ? x[i] : T{0};
    return 0;
  });
}

}  // namespace starling::dist::ps
