#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace starling::kernels::reference {

// Canonical signs of singular vectors and eigenvectors: the largest element of every column of u [m, k] becomes
// positive (the first of nearly equal ones). The rows of vh [k, n], if given, follow.
inline void choose_signs(double* u, std::int64_t m, std::int64_t k, double* vh, std::int64_t n) {
  for (std::int64_t c = 0; c < k; ++c) {
    double most = 0;
    for (std::int64_t r = 0; r < m; ++r) most = std::max(most, std::abs(u[r * k + c]));
    std::int64_t first = 0;
    while (first < m && std::abs(u[first * k + c]) < most * (1 - 1e-6)) ++first;
    if (first == m || !(u[first * k + c] < 0)) continue;
    for (std::int64_t r = 0; r < m; ++r) u[r * k + c] = -u[r * k + c];
    for (std::int64_t j = 0; vh != nullptr && j < n; ++j) vh[c * n + j] = -vh[c * n + j];
  }
}

// Makes the diagonal of r [k, n] ≥ 0; the columns of q [m, k] follow.
inline void choose_diagonal(double* q, std::int64_t m, std::int64_t k, double* r, std::int64_t n) {
  for (std::int64_t c = 0; c < k; ++c) {
    if (!(r[c * n + c] < 0)) continue;
    for (std::int64_t j = c; j < n; ++j) r[c * n + j] = -r[c * n + j];
    for (std::int64_t i = 0; i < m; ++i) q[i * k + c] = -q[i * k + c];
  }
}

inline bool all_finite(const double* x, std::int64_t n) {
  return std::all_of(x, x + n, [](double v) { return std::isfinite(v); });
}

}  // namespace starling::kernels::reference
