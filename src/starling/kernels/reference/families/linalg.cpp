#include "starling/ops/api/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Gauss-Jordan elimination with row pivots: a [n, n] becomes the identity, b [n, k] the solution. Computes the
// determinant's sign and the logarithm of its magnitude; stops at a column without a pivot.
struct Elimination {
  std::int64_t n, k;
  std::vector<double> a, b;
  double sign = 1;
  double log = 0;
  double determinant = 1;
  bool singular = false;

  void run() {
    for (std::int64_t c = 0; c < n && !singular; ++c) {
      const std::int64_t pivot = largest_below(c);
      const double value = a[at(pivot, c, n)];
      determinant *= pivot == c ? value : -value;
      sign *= (pivot == c ? 1 : -1) * (value < 0 ? -1 : value > 0 ? 1 : value);
      log += std::log(std::abs(value));
      singular = value == 0;
      if (singular) break;
      exchange(pivot, c);
      for (std::int64_t j = 0; j < n; ++j) a[at(c, j, n)] /= value;
      for (std::int64_t j = 0; j < k; ++j) b[at(c, j, k)] /= value;
      for (std::int64_t r = 0; r < n; ++r) {
        if (r != c) subtract(c, r, a[at(r, c, n)]);
      }
    }
  }

 private:
  static std::size_t at(std::int64_t r, std::int64_t c, std::int64_t width) {
    return static_cast<std::size_t>(r * width + c);
  }
  std::int64_t largest_below(std::int64_t c) const {
    std::int64_t best = c;
    for (std::int64_t r = c + 1; r < n; ++r) {
      if (std::abs(a[at(r, c, n)]) > std::abs(a[at(best, c, n)])) best = r;
    }
    return best;
  }
  void exchange(std::int64_t r, std::int64_t s) {
    if (r == s) return;
    for (std::int64_t j = 0; j < n; ++j) std::swap(a[at(r, j, n)], a[at(s, j, n)]);
    for (std::int64_t j = 0; j < k; ++j) std::swap(b[at(r, j, k)], b[at(s, j, k)]);
  }
  void subtract(std::int64_t from, std::int64_t row, double factor) {
    for (std::int64_t j = 0; j < n; ++j) a[at(row, j, n)] -= factor * a[at(from, j, n)];
    for (std::int64_t j = 0; j < k; ++j) b[at(row, j, k)] -= factor * b[at(from, j, k)];
  }
};

std::int64_t matrices_in(const Shape& shape) {
  std::int64_t count = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i) count *= shape[i];
  return count;
}

template <class T>
std::vector<double> values(const T* from, std::int64_t count) {
  return {from, from + count};
}

template <class T>
void store(const std::vector<double>& from, T* to) {
  std::transform(from.begin(), from.end(), to, [](double v) { return static_cast<T>(v); });
}

// Solves a · x = b, with b the identity for the inverse.
std::unique_ptr<Plan> plan_solve(const PlanRequest& request) {
  const bool inverts = request.in.size() == 1;
  const Shape& shape = request.in[0].shape;
  const auto n = shape.back(), k = request.out[0].shape.back(), count = matrices_in(shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      for (std::int64_t i = 0; n * k > 0 && i < count; ++i) {
        Elimination e{n, k, values(static_cast<const T*>(launch.in[0]) + i * n * n, n * n), {}};
        if (inverts) {
          e.b.resize(static_cast<std::size_t>(n * n));
          for (std::int64_t r = 0; r < n; ++r) e.b[static_cast<std::size_t>(r * n + r)] = 1;
        } else {
          e.b = values(static_cast<const T*>(launch.in[1]) + i * n * k, n * k);
        }
        if (!std::all_of(e.a.begin(), e.a.end(), [](double v) { return std::isfinite(v); })) {
          std::fill_n(static_cast<T*>(launch.out[0]) + i * n * k, n * k, std::numeric_limits<T>::quiet_NaN());
          continue;
        }
        e.run();
        check(!e.singular, "[{}] expected invertible matrices, got a singular one at index {}",
              inverts ? "inverse" : "solve", i);
        store(e.b, static_cast<T*>(launch.out[0]) + i * n * k);
      }
    });
  });
}

std::unique_ptr<Plan> plan_determinant(const PlanRequest& request) {
  const Shape& shape = request.in[0].shape;
  const auto n = shape.back(), count = matrices_in(shape);
  const bool logs = request.out.size() == 2;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      for (std::int64_t i = 0; i < count; ++i) {
        Elimination e{n, 0, values(static_cast<const T*>(launch.in[0]) + i * n * n, n * n), {}};
        e.run();
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(logs ? e.sign : e.determinant);
        if (logs) static_cast<T*>(launch.out[1])[i] = static_cast<T>(e.log);
      }
    });
  });
}

// Cholesky factorisation row by row; `read` returns a's element (i, j) for i ≥ j, `write` takes L's.
template <class Read, class Write>
bool factor(std::int64_t n, Read&& read, Write&& write) {
  std::vector<double> l(static_cast<std::size_t>(n * n));
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& { return l[static_cast<std::size_t>(i * n + j)]; };
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = read(i, j);
      for (std::int64_t x = 0; x < j; ++x) sum -= at(i, x) * at(j, x);
      if (i == j && !(sum > 0)) return false;
      at(i, j) = i == j ? std::sqrt(sum) : sum / at(j, j);
      write(i, j, at(i, j));
    }
  }
  return true;
}

std::unique_ptr<Plan> plan_cholesky(const PlanRequest& request) {
  const Shape& shape = request.in[0].shape;
  const auto n = shape.back(), count = matrices_in(shape);
  const bool upper = request.attrs.as<op::CholeskyAttrs>().upper;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto place = [=](std::int64_t i, std::int64_t j) { return upper ? j * n + i : i * n + j; };
      std::fill_n(static_cast<T*>(launch.out[0]), count * n * n, T{0});
      for (std::int64_t m = 0; n > 0 && m < count; ++m) {
        const auto* a = static_cast<const T*>(launch.in[0]) + m * n * n;
        auto* l = static_cast<T*>(launch.out[0]) + m * n * n;
        const bool good = factor(
            n, [&](auto i, auto j) { return static_cast<double>(a[place(i, j)]); },
            [&](auto i, auto j, double v) { l[place(i, j)] = static_cast<T>(v); });
        check(good, "[cholesky] expected positive definite matrices, got one that is not at index {}", m);
      }
    });
  });
}

}  // namespace

void register_reference_linalg(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("inverse", plan_solve);
  add("solve", plan_solve);
  add("determinant", plan_determinant);
  add("slogdet", plan_determinant);
  add("cholesky", plan_cholesky);
}

}  // namespace starling::kernels
