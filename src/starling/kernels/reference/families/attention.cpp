#include <algorithm>
#include <limits>
#include <vector>

#include "starling/kernels/attention_shape.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

template <class T>
double dot(const T* a, const T* b, std::int64_t n) {
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return total;
}

// Scores of query i, -inf where a key is masked.
template <class T>
std::vector<double> scores(const AttentionShape& s, const T* q, const T* k, const void* mask, std::int64_t b,
                           std::int64_t i) {
  std::vector<double> row(static_cast<std::size_t>(s.keys), -std::numeric_limits<double>::infinity());
  for (std::int64_t j = 0; j < s.seen(i); ++j) {
    double score = s.scale * dot(q + (b * s.queries + i) * s.d, k + (b * s.keys + j) * s.d, s.d);
    if (s.mask != AttentionShape::Mask::none) {
      const std::int64_t at = s.mask_at(b) + i * s.mask_row_stride() + j * s.mask_col_stride();
      if (s.mask == AttentionShape::Mask::added) score += static_cast<double>(static_cast<const T*>(mask)[at]);
      if (s.mask == AttentionShape::Mask::boolean && !static_cast<const bool*>(mask)[at]) continue;
    }
    row[static_cast<std::size_t>(j)] = score;
  }
  return row;
}

// Turns scores into probabilities; returns their log-sum-exp, 0 if no key is visible.
double soften(std::vector<double>& row) {
  constexpr double kUnseen = -std::numeric_limits<double>::infinity();
  double largest = kUnseen, sum = 0;
  for (double x : row) largest = std::max(largest, x);
  if (std::all_of(row.begin(), row.end(), [](double x) { return x == kUnseen; })) {
    std::fill(row.begin(), row.end(), 0.0);
    return 0;
  }
  for (double& x : row) {
    x = std::exp(x - largest);
    sum += x;
  }
  for (double& x : row) x /= sum;
  return largest + std::log(sum);
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const AttentionShape s = attention_shape(request, 0, 3);
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([s](const Launch& l) {
      const auto *q = static_cast<const T*>(l.in[0]), *k = static_cast<const T*>(l.in[1]),
                 *v = static_cast<const T*>(l.in[2]);
      const void* mask = s.mask == AttentionShape::Mask::none ? nullptr : l.in[3];
      for (std::int64_t row = 0; row < s.batch * s.queries; ++row) {
        const std::int64_t b = row / s.queries, i = row % s.queries;
        std::vector<double> p = scores(s, q, k, mask, b, i);
        static_cast<T*>(l.out[1])[row] = static_cast<T>(soften(p));
        for (std::int64_t c = 0; c < s.dv; ++c) {
          double total = 0;
          for (std::int64_t j = 0; j < s.keys; ++j)
            total += p[static_cast<std::size_t>(j)] * static_cast<double>(v[(b * s.keys + j) * s.dv + c]);
          static_cast<T*>(l.out[0])[row * s.dv + c] = static_cast<T>(total);
        }
      }
    });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  const AttentionShape s = attention_shape(request, 2, 7);
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([s](const Launch& l) {
      const auto in = [&](std::size_t i) { return static_cast<const T*>(l.in[i]); };
      const T *dy = in(0), *dlse = in(1), *q = in(2), *k = in(3), *v = in(4), *y = in(5), *lse = in(6);
      const void* mask = s.mask == AttentionShape::Mask::none ? nullptr : l.in[7];
      for (std::int64_t b = 0; b < s.batch; ++b) {
        std::vector<double> dq(static_cast<std::size_t>(s.queries * s.d)), dk(static_cast<std::size_t>(s.keys * s.d)),
            dv(static_cast<std::size_t>(s.keys * s.dv));
        for (std::int64_t i = 0; i < s.queries; ++i) {
          const std::int64_t row = b * s.queries + i;
          const std::vector<double> x = scores(s, q, k, mask, b, i);
          const double delta = dot(dy + row * s.dv, y + row * s.dv, s.dv) - static_cast<double>(dlse[row]);
          for (std::int64_t j = 0; j < s.keys; ++j) {
            const double p = std::exp(x[static_cast<std::size_t>(j)] - static_cast<double>(lse[row]));
            const std::int64_t key = b * s.keys + j;
            const double ds = s.scale * p * (dot(dy + row * s.dv, v + key * s.dv, s.dv) - delta);
            for (std::int64_t c = 0; c < s.d; ++c) {
              dq[static_cast<std::size_t>(i * s.d + c)] += ds * static_cast<double>(k[key * s.d + c]);
              dk[static_cast<std::size_t>(j * s.d + c)] += ds * static_cast<double>(q[row * s.d + c]);
            }
            for (std::int64_t c = 0; c < s.dv; ++c)
              dv[static_cast<std::size_t>(j * s.dv + c)] += p * static_cast<double>(dy[row * s.dv + c]);
          }
        }
        const auto store = [b](const std::vector<double>& from, void* to) {
          const auto n = static_cast<std::int64_t>(from.size());
          for (std::int64_t i = 0; i < n; ++i)
            static_cast<T*>(to)[b * n + i] = static_cast<T>(from[static_cast<std::size_t>(i)]);
        };
        store(dq, l.out[0]);
        store(dk, l.out[1]);
        store(dv, l.out[2]);
      }
    });
  });
}

}  // namespace

void register_reference_attention(KernelTable& table) {
  table.add("scaled_dot_product_attention", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_forward));
  table.add("scaled_dot_product_attention_backward", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, plan_backward));
}

}  // namespace starling::kernels
