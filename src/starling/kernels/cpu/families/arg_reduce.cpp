#include "starling/ops/api/arg_reduce.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/reduce/reduce.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 32768;

template <bool Largest, class T>
bool beats(T x, T best) {
  if constexpr (std::is_floating_point_v<T>) {
    if (x != x) return best == best;
  }
  return Largest ? x > best : x < best;
}

template <bool Largest, class T>
T run_extreme(const T* x, std::int64_t n) {
  if constexpr (std::is_floating_point_v<T>) return row_extreme(x, n, Largest);
  T best = x[0];
  for (std::int64_t i = 1; i < n; ++i) best = beats<Largest>(x[i], best) ? x[i] : best;
  return best;
}

// Index of the extreme of a row: vectors find the extreme of every run; only the winning run is searched.
template <bool Largest, class T>
std::int64_t arg_row(const T* x, std::int64_t n) {
  constexpr std::int64_t kRun = 2048;
  T best = run_extreme<Largest>(x, std::min(kRun, n));
  std::int64_t from = 0;
  for (std::int64_t i = kRun; i < n; i += kRun) {
    const T other = run_extreme<Largest>(x + i, std::min(kRun, n - i));
    if (!beats<Largest>(other, best)) continue;
    best = other;
    from = i;
  }
  while (x[from] != best && (best == best || x[from] == x[from])) ++from;
  return from;
}

template <bool Largest, class T>
std::int64_t arg_long_row(const T* x, std::int64_t n) {
  constexpr std::int64_t kPieces = 64;
  std::int64_t found[kPieces];
  const std::int64_t pieces = std::clamp<std::int64_t>(n / kGrain, 1, kPieces);
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t from = n * p / pieces;
      found[p] = from + arg_row<Largest>(x + from, n * (p + 1) / pieces - from);
    }
  });
  std::int64_t best = found[0];
  for (std::int64_t p = 1; p < pieces; ++p) best = beats<Largest>(x[found[p]], x[best]) ? found[p] : best;
  return best;
}

// Updates the extremes of columns with some rows. Indices are integers as wide as the values, so that the compiler can
// vectorise.
template <bool Largest, class T, class Index>
void arg_rows(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t cols, T* best, Index* index) {
  std::copy_n(x, cols, best);
  std::fill_n(index, cols, Index{0});
  for (std::int64_t a = 1; a < rows; ++a) {
    const T* row = x + a * stride;
    const auto here = static_cast<Index>(a);
    for (std::int64_t i = 0; i < cols; ++i) {
      const T v = row[i], b = best[i];
      bool wins = Largest ? v > b : v < b;
      if constexpr (std::is_floating_point_v<T>) wins = wins | ((v != v) & (b == b));
      best[i] = wins ? v : b;
      index[i] = wins ? here : index[i];
    }
  }
}

template <bool Largest, class T>
void arg_columns(const T* x, std::int64_t* index, ReduceShape s) {
  using Index = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  constexpr std::int64_t kColumns = 512, kRows = 1 << 20;
  const std::int64_t across = (s.inner + kColumns - 1) / kColumns;
  const std::int64_t work = std::max<std::int64_t>(s.axis * std::min(s.inner, kColumns), 1);
  parallel_for(s.outer * across, std::max<std::int64_t>(kGrain / work, 1), [&](std::int64_t begin, std::int64_t end) {
    alignas(64) T best[kColumns];
    alignas(64) T other[kColumns];
    alignas(64) Index found[kColumns];
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t o = t / across, c = t % across * kColumns, cols = std::min(kColumns, s.inner - c);
      const T* from = x + o * s.axis * s.inner + c;
      std::int64_t* to = index + o * s.inner + c;
      arg_rows<Largest>(from, std::min(kRows, s.axis), s.inner, cols, best, found);
      for (std::int64_t i = 0; i < cols; ++i) to[i] = found[i];
      for (std::int64_t a = kRows; a < s.axis; a += kRows) {
        arg_rows<Largest>(from + a * s.inner, std::min(kRows, s.axis - a), s.inner, cols, other, found);
        for (std::int64_t i = 0; i < cols; ++i) {
          if (!beats<Largest>(other[i], best[i])) continue;
          best[i] = other[i];
          to[i] = a + found[i];
        }
      }
    }
  });
}

template <bool Largest, class T>
void arg_reduce(const T* x, std::int64_t* index, ReduceShape s) {
  if (s.outer * s.inner == 0) return;
  if (s.inner > 1) return arg_columns<Largest>(x, index, s);
  if (s.outer < num_threads()) {
    for (std::int64_t o = 0; o < s.outer; ++o) index[o] = arg_long_row<Largest>(x + o * s.axis, s.axis);
    return;
  }
  parallel_for(s.outer, std::max<std::int64_t>(kGrain / s.axis, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) index[o] = arg_row<Largest>(x + o * s.axis, s.axis);
  });
}

template <class T>
std::unique_ptr<Plan> plan_as(const PlanRequest& request, bool largest) {
  const Shape& shape = request.in[0].shape;
  const Shape& axes = request.attrs.as<op::ReduceAttrs>().axes;
  ReduceShape s{1, shape.numel(), 1};
  if (!axes.empty()) {
    const int at = normalize_axis(axes[0], shape.rank(), "argmax");
    s = {1, shape[at], 1};
    for (int d = 0; d < at; ++d) s.outer *= shape[d];
    for (int d = at + 1; d < shape.rank(); ++d) s.inner *= shape[d];
  }
  return make_plan([=](const Launch& launch) {
    const auto* x = static_cast<const T*>(launch.in[0]);
    auto* index = static_cast<std::int64_t*>(launch.out[0]);
    largest ? arg_reduce<true>(x, index, s) : arg_reduce<false>(x, index, s);
  });
}

auto planner(bool largest) {
  return [largest](const PlanRequest& request) -> std::unique_ptr<Plan> {
    switch (request.in[0].dtype) {
      case DType::f32: return plan_as<float>(request, largest);
      case DType::f64: return plan_as<double>(request, largest);
      case DType::i64: return plan_as<std::int64_t>(request, largest);
      case DType::i32: return plan_as<std::int32_t>(request, largest);
      case DType::u8: return plan_as<std::uint8_t>(request, largest);
      default: return nullptr;
    }
  };
}

}  // namespace

void register_cpu_arg_reduce(KernelTable& table) {
  table.add("argmax", DeviceKind::cpu, {"runs", Accepts::contiguous, planner(true)});
  table.add("argmin", DeviceKind::cpu, {"runs", Accepts::contiguous, planner(false)});
}

}  // namespace starling::kernels
