#include "starling/ops/api/scan.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/reduce/reduce.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kColumns = 256;

ReduceShape lines_of(const Shape& shape, std::int64_t axis) {
  const int at = normalize_axis(axis, shape.rank(), "scan");
  ReduceShape s{1, shape[at], 1};
  for (int d = 0; d < shape.rank(); ++d) (d < at ? s.outer : d > at ? s.inner : s.axis) *= d == at ? 1 : shape[d];
  return s;
}

// Calls tile(first offset, columns) for strips of neighbouring lines, in parallel.
template <class F>
void for_strips(const ReduceShape& s, F&& tile) {
  const std::int64_t across = (s.inner + kColumns - 1) / kColumns;
  const std::int64_t work = std::max<std::int64_t>(s.axis * std::min(s.inner, kColumns), 1);
  parallel_for(s.outer * across, std::max<std::int64_t>(kGrain / work, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t c = t % across * kColumns;
      tile(t / across * s.axis * s.inner + c, std::min(kColumns, s.inner - c));
    }
  });
}

// Running totals of a strip of lines in V: step(total, x) is the next total.
template <class In, class Out, class V, class Step>
void scan_strip(const In* x, Out* y, std::int64_t rows, std::int64_t stride, std::int64_t cols, V start, bool exclusive,
                Step step) {
  V total[kColumns];
  std::fill_n(total, cols, start);
  for (std::int64_t r = 0; r < rows; ++r, x += stride, y += stride) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const V next = step(total[c], x[c]);
      y[c] = static_cast<Out>(exclusive ? total[c] : next);
      total[c] = next;
    }
  }
}

// Scans some neighbouring contiguous lines at once, so that their additions hide each other's latency.
template <int Lines, class In, class Out, class V, class Step>
void scan_lines(const In* x, Out* y, std::int64_t n, std::int64_t apart, std::int64_t stride, V start, bool exclusive,
                Step step) {
  V total[Lines];
  for (auto& t : total) t = start;
  for (std::int64_t i = 0; i < n; ++i, x += stride, y += stride) {
    for (int k = 0; k < Lines; ++k) {
      const V next = step(total[k], x[k * apart]);
      y[k * apart] = static_cast<Out>(exclusive ? total[k] : next);
      total[k] = next;
    }
  }
}

// Scans one long line. Pieces of a sum are added up first, then scanned from the total before each; a product is
// scanned in one piece, since a piece that overflows would turn a zero before it into NaN.
template <class In, class Out, class V, class Step>
void scan_line(const In* x, Out* y, std::int64_t n, std::int64_t stride, V start, bool exclusive, Step step,
               bool in_pieces) {
  constexpr std::int64_t kPieces = 64;
  const std::int64_t pieces = in_pieces ? std::clamp<std::int64_t>(n / kGrain, 1, kPieces) : 1;
  V before[kPieces];
  if (pieces > 1) {
    parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        V total = start;
        for (std::int64_t i = n * p / pieces; i < n * (p + 1) / pieces; ++i) total = step(total, x[i * stride]);
        before[p] = total;
      }
    });
  }
  V reached = start;
  for (std::int64_t p = 0; p < pieces; ++p) {
    const V own = pieces > 1 ? before[p] : start;
    before[p] = reached;
    reached = step(reached, own);
  }
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = n * p / pieces, to = n * (p + 1) / pieces;
      scan_lines<1>(x + from * stride, y + from * stride, to - from, 0, stride, before[p], exclusive, step);
    }
  });
}

template <class In, class Out, class V, class Step>
std::unique_ptr<Plan> plan_steps(const PlanRequest& request, V start, Step step, bool in_pieces) {
  const auto attrs = request.attrs.as<op::ScanAttrs>();
  const ReduceShape s = lines_of(request.in[0].shape, attrs.axis);
  return make_plan([=](const Launch& launch) {
    const auto* x = static_cast<const In*>(launch.in[0]);
    auto* y = static_cast<Out*>(launch.out[0]);
    if (s.outer * s.axis * s.inner == 0) return;
    const std::int64_t last = attrs.reverse ? (s.axis - 1) * s.inner : 0, stride = attrs.reverse ? -s.inner : s.inner;
    if (s.outer * s.inner == 1)
      return scan_line(x + last, y + last, s.axis, stride, start, attrs.exclusive, step, in_pieces);
    if (s.inner == 1) {
      constexpr std::int64_t kLines = 4;
      const auto some = [&](std::int64_t begin, std::int64_t end) {
        std::int64_t o = begin;
        for (; o + kLines <= end; o += kLines) {
          const std::int64_t at = o * s.axis + last;
          scan_lines<kLines>(x + at, y + at, s.axis, s.axis, stride, start, attrs.exclusive, step);
        }
        for (; o < end; ++o)
          scan_lines<1>(x + o * s.axis + last, y + o * s.axis + last, s.axis, 0, stride, start, attrs.exclusive, step);
      };
      return parallel_for(s.outer, std::max<std::int64_t>(kGrain / s.axis, 1), some);
    }
    for_strips(s, [&](std::int64_t at, std::int64_t cols) {
      scan_strip(x + at + last, y + at + last, s.axis, stride, cols, start, attrs.exclusive, step);
    });
  });
}

auto plan_scan(bool product) {
  return [product](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const auto plus = [](double a, auto x) { return a + static_cast<double>(x); };
    const auto times = [](double a, auto x) { return a * static_cast<double>(x); };
    const auto plan = [&]<class T>() {
      return product ? plan_steps<T, T, double>(request, 1.0, times, false)
                     : plan_steps<T, T, double>(request, 0.0, plus, true);
    };
    if (request.in[0].dtype == DType::f32) return plan.template operator()<float>();
    if (request.in[0].dtype == DType::f64) return plan.template operator()<double>();
    const auto add = [](std::int64_t a, std::int64_t x) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(x));
    };
    if (request.in[0].dtype == DType::i64 && !product)
      return plan_steps<std::int64_t, std::int64_t, std::int64_t>(request, 0, add, true);
    return nullptr;
  };
}

template <class T>
std::unique_ptr<Plan> plan_recurrence_as(const PlanRequest& request) {
  const auto attrs = request.attrs.as<op::RecurrenceAttrs>();
  const ReduceShape s = lines_of(request.in[0].shape, attrs.axis);
  return make_plan([=](const Launch& launch) {
    const auto *a = static_cast<const T*>(launch.in[0]), *b = static_cast<const T*>(launch.in[1]);
    auto* y = static_cast<T*>(launch.out[0]);
    if (s.outer * s.axis * s.inner == 0) return;
    for_strips(s, [&](std::int64_t at, std::int64_t cols) {
      double state[kColumns] = {};
      for (std::int64_t k = 0; k < s.axis; ++k) {
        const std::int64_t row = at + (attrs.reverse ? s.axis - 1 - k : k) * s.inner;
        for (std::int64_t c = 0; c < cols; ++c) {
          state[c] = static_cast<double>(a[row + c]) * state[c] + static_cast<double>(b[row + c]);
          y[row + c] = static_cast<T>(state[c]);
        }
      }
    });
  });
}

std::unique_ptr<Plan> plan_recurrence(const PlanRequest& request) {
  if (request.in[0].dtype == DType::f32) return plan_recurrence_as<float>(request);
  if (request.in[0].dtype == DType::f64) return plan_recurrence_as<double>(request);
  return nullptr;
}

}  // namespace

void register_cpu_scan(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"strips", Accepts::contiguous, plan});
  };
  add("cumsum", plan_scan(false));
  add("cumprod", plan_scan(true));
  add("linear_recurrence", plan_recurrence);
}

}  // namespace starling::kernels
