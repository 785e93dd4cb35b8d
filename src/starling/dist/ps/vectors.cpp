#include "starling/dist/ps/vectors.h"

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
  if (!portions_[vector].insert(portion).second) return false;
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

}  // namespace starling::dist::ps
