#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/signs.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

struct Matrix {
  std::int64_t rows, cols;
  std::vector<double> values;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  double& operator()(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  double operator()(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
};

Matrix transposed(const Matrix& a) {
  Matrix t(a.cols, a.rows);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) t(c, r) = a(r, c);
  }
  return t;
}

Matrix unit(std::int64_t rows, std::int64_t cols) {
  Matrix m(rows, cols);
  for (std::int64_t i = 0; i < std::min(rows, cols); ++i) m(i, i) = 1;
  return m;
}

template <class T>
Matrix load(const Launch& launch, std::int64_t i, std::int64_t rows, std::int64_t cols) {
  Matrix m(rows, cols);
  const T* from = static_cast<const T*>(launch.in[0]) + i * rows * cols;
  std::transform(from, from + rows * cols, m.values.begin(), [](T v) { return static_cast<double>(v); });
  return m;
}

template <class T>
void store(const std::vector<double>& from, const Launch& launch, std::size_t output, std::int64_t i) {
  T* to = static_cast<T*>(launch.out[output]) + i * static_cast<std::int64_t>(from.size());
  std::transform(from.begin(), from.end(), to, [](double v) { return static_cast<T>(v); });
}

// Reflects x by I - 2 v vᵀ / (vᵀ v), from row `first` on.
void reflect(Matrix& x, const std::vector<double>& v, std::int64_t first) {
  double norm = 0;
  for (std::int64_t r = first; r < x.rows; ++r) norm += v[static_cast<std::size_t>(r)] * v[static_cast<std::size_t>(r)];
  if (norm == 0) return;
  for (std::int64_t c = 0; c < x.cols; ++c) {
    double dot = 0;
    for (std::int64_t r = first; r < x.rows; ++r) dot += v[static_cast<std::size_t>(r)] * x(r, c);
    for (std::int64_t r = first; r < x.rows; ++r) x(r, c) -= 2 * dot / norm * v[static_cast<std::size_t>(r)];
  }
}

struct Factors {
  Matrix q, r;
};
Factors householder(const Matrix& a) {
  const auto k = std::min(a.rows, a.cols);
  Matrix work = a;
  std::vector<std::vector<double>> mirrors;
  for (std::int64_t c = 0; c < k; ++c) {
    std::vector<double> v(static_cast<std::size_t>(a.rows), 0.0);
    double norm = 0;
    for (std::int64_t r = c; r < a.rows; ++r) {
      v[static_cast<std::size_t>(r)] = work(r, c);
      norm += work(r, c) * work(r, c);
    }
    v[static_cast<std::size_t>(c)] += work(c, c) < 0 ? -std::sqrt(norm) : std::sqrt(norm);
    reflect(work, v, c);
    mirrors.push_back(v);
  }
  Factors out{unit(a.rows, k), Matrix(k, a.cols)};
  for (auto c = k - 1; c >= 0; --c) reflect(out.q, mirrors[static_cast<std::size_t>(c)], c);
  for (std::int64_t r = 0; r < k; ++r) {
    for (auto c = r; c < a.cols; ++c) out.r(r, c) = work(r, c);
  }
  reference::choose_diagonal(out.q.values.data(), a.rows, k, out.r.values.data(), a.cols);
  return out;
}

constexpr int kMostSweeps = 100;

// Rotates columns p and q of x: (p, q) ← (c p - s q, s p + c q).
void rotate(Matrix& x, std::int64_t p, std::int64_t q, double c, double s) {
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const double a = x(r, p), b = x(r, q);
    x(r, p) = c * a - s * b;
    x(r, q) = s * a + c * b;
  }
}

// Rotation that makes [[pp, pq], [pq, qq]] diagonal.
std::pair<double, double> rotation(double pp, double pq, double qq) {
  const double tau = (qq - pp) / (2 * pq);
  const double t = (tau < 0 ? -1.0 : 1.0) / (std::abs(tau) + std::sqrt(1 + tau * tau)), c = 1 / std::sqrt(1 + t * t);
  return {c, t * c};
}

double column_dot(const Matrix& x, std::int64_t p, std::int64_t q) {
  double sum = 0;
  for (std::int64_t r = 0; r < x.rows; ++r) sum += x(r, p) * x(r, q);
  return sum;
}

// Fills column c with a unit vector orthogonal to the columns before it.
void complete(Matrix& u, std::int64_t c) {
  for (std::int64_t e = 0; e < u.rows; ++e) {
    for (std::int64_t r = 0; r < u.rows; ++r) u(r, c) = r == e ? 1 : 0;
    for (int twice = 0; twice < 2; ++twice) {
      for (std::int64_t p = 0; p < c; ++p) {
        const double dot = column_dot(u, p, c);
        for (std::int64_t r = 0; r < u.rows; ++r) u(r, c) -= dot * u(r, p);
      }
    }
    const double norm = std::sqrt(column_dot(u, c, c));
    if (norm < 0.1 / static_cast<double>(u.rows)) continue;
    for (std::int64_t r = 0; r < u.rows; ++r) u(r, c) /= norm;
    return;
  }
}

struct Singular {
  Matrix u, vh;
  std::vector<double> s;
};
// One-sided Jacobi: columns of a tall matrix are rotated until all are orthogonal; their norms are the singular values.
Singular jacobi_svd(const Matrix& a) {
  if (a.rows < a.cols) {
    Singular t = jacobi_svd(transposed(a));
    return {transposed(t.vh), transposed(t.u), t.s};
  }
  Matrix work = a, v = unit(a.cols, a.cols);
  bool moved = true;
  for (int sweep = 0; moved && sweep < kMostSweeps; ++sweep) {
    moved = false;
    for (std::int64_t p = 0; p < a.cols; ++p) {
      for (std::int64_t q = p + 1; q < a.cols; ++q) {
        const double pp = column_dot(work, p, p), qq = column_dot(work, q, q), pq = column_dot(work, p, q);
        if (std::abs(pq) <= 1e-16 * std::sqrt(pp * qq)) continue;
        const auto [c, s] = rotation(pp, pq, qq);
        rotate(work, p, q, c, s);
        rotate(v, p, q, c, s);
        moved = true;
      }
    }
  }
  std::vector<double> lengths;
  for (std::int64_t c = 0; c < a.cols; ++c) lengths.push_back(std::sqrt(column_dot(work, c, c)));
  std::vector<std::int64_t> order(static_cast<std::size_t>(a.cols));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) {
    return lengths[static_cast<std::size_t>(x)] > lengths[static_cast<std::size_t>(y)];
  });
  Singular out{Matrix(a.rows, a.cols), Matrix(a.cols, a.cols), {}};
  const double least = order.empty() ? 0 : lengths[static_cast<std::size_t>(order[0])] * 1e-15;
  for (std::int64_t c = 0; c < a.cols; ++c) {
    const auto from = order[static_cast<std::size_t>(c)];
    const double length = lengths[static_cast<std::size_t>(from)];
    out.s.push_back(length);
    for (std::int64_t r = 0; r < a.rows && length > least; ++r) out.u(r, c) = work(r, from) / length;
    if (length <= least) complete(out.u, c);
    for (std::int64_t r = 0; r < a.cols; ++r) out.vh(c, r) = v(r, from);
  }
  return out;
}

struct Eigen {
  std::vector<double> values;
  Matrix vectors;
};
// Jacobi eigenvalue algorithm: rotations from both sides until the matrix is diagonal.
Eigen jacobi_eigh(Matrix a) {
  const auto n = a.rows;
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = r + 1; c < n; ++c) a(r, c) = a(c, r);
  }
  Matrix v = unit(n, n);
  bool moved = true;
  for (int sweep = 0; moved && sweep < kMostSweeps; ++sweep) {
    moved = false;
    for (std::int64_t p = 0; p < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        if (std::abs(a(p, q)) <= 1e-17 * (std::abs(a(p, p)) + std::abs(a(q, q)))) continue;
        const auto [c, s] = rotation(a(p, p), a(p, q), a(q, q));
        rotate(a, p, q, c, s);
        Matrix t = transposed(a);
        rotate(t, p, q, c, s);
        a = transposed(t);
        rotate(v, p, q, c, s);
        moved = true;
      }
    }
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return a(x, x) < a(y, y); });
  Eigen out{{}, Matrix(n, n)};
  for (std::int64_t c = 0; c < n; ++c) {
    const auto from = order[static_cast<std::size_t>(c)];
    out.values.push_back(a(from, from));
    for (std::int64_t r = 0; r < n; ++r) out.vectors(r, c) = v(r, from);
  }
  reference::choose_signs(out.vectors.values.data(), n, n, nullptr, 0);
  return out;
}

// Calls f<T>(launch, index, matrix) for every matrix of the operand.
template <class F>
std::unique_ptr<Plan> plan_matrices(const PlanRequest& request, bool finite, F f) {
  const Shape& shape = request.in[0].shape;
  const auto rows = shape[shape.rank() - 2], cols = shape.back();
  std::int64_t count = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i) count *= shape[i];
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, name = request.op.name](const Launch& launch) {
      for (std::int64_t i = 0; rows * cols > 0 && i < count; ++i) {
        const Matrix a = load<T>(launch, i, rows, cols);
        check(!finite || reference::all_finite(a.values.data(), rows * cols),
              "[{}] expected finite matrices, got another at index {}", name, i);
        f.template operator()<T>(launch, i, a);
      }
    });
  });
}

std::unique_ptr<Plan> plan_qr(const PlanRequest& request) {
  return plan_matrices(request, false, []<class T>(const Launch& launch, std::int64_t i, const Matrix& a) {
    const Factors out = householder(a);
    store<T>(out.q.values, launch, 0, i);
    store<T>(out.r.values, launch, 1, i);
  });
}

std::unique_ptr<Plan> plan_svd(const PlanRequest& request) {
  return plan_matrices(request, true, []<class T>(const Launch& launch, std::int64_t i, const Matrix& a) {
    Singular out = jacobi_svd(a);
    reference::choose_signs(out.u.values.data(), out.u.rows, out.u.cols, out.vh.values.data(), out.vh.cols);
    store<T>(out.u.values, launch, 0, i);
    store<T>(out.s, launch, 1, i);
    store<T>(out.vh.values, launch, 2, i);
  });
}

std::unique_ptr<Plan> plan_eigh(const PlanRequest& request) {
  return plan_matrices(request, true, []<class T>(const Launch& launch, std::int64_t i, const Matrix& a) {
    const Eigen out = jacobi_eigh(a);
    store<T>(out.values, launch, 0, i);
    store<T>(out.vectors.values, launch, 1, i);
  });
}

}  // namespace

void register_reference_decompose(KernelTable& table) {
  table.add("qr", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_qr));
  table.add("svd", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_svd));
  table.add("eigh", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_eigh));
}

}  // namespace starling::kernels
