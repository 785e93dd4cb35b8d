#include "starling/ops/api/row_sparse.h"

#include <cstring>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/index/row_groups.h"
#include "starling/kernels/cpu/update/in_place.h"
#include "starling/kernels/cpu/update/sgd.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements worth a thread

template <class T>
struct SgdRows {
  SgdOptions options;
  std::int64_t all, rows, n, width;
  RowAdd<T> add;
  int threads;
  DType rate;

  std::size_t scratch() const {
    return sort_bytes(n) + static_cast<std::size_t>(threads) * static_cast<std::size_t>(width) * sizeof(T);
  }
  void operator()(const Launch& launch) const {
    const auto* given = static_cast<const std::int64_t*>(launch.in[2]);
    const auto* values = static_cast<const T*>(launch.in[3]);
    const double lr = read_rate(rate, launch.in[4]);
    check_indices(given, n, rows, "sgd_update_rows");
    T *w = in_place<T>(launch, 0, all), *v = in_place<T>(launch, 1, all);
    if (n == 0 || width == 0) return;
    auto* entries = static_cast<RowEntry*>(launch.scratch);
    const RowEntry* sorted = sort_by_row(given, n, entries, entries + n);
    auto* sums = reinterpret_cast<T*>(entries + 2 * n);
    const auto pieces =
        static_cast<int>(std::clamp<std::int64_t>(n * width / kGrain, 1, std::min<std::int64_t>(threads, n)));
    parallel_run(pieces, [&](int piece) {
      T* sum = sums + piece * width;
      for_groups(sorted, n, n * piece / pieces, n * (piece + 1) / pieces, [&](std::int64_t first, std::int64_t end) {
        const T* g = sum_of(sorted, first, end, values, width, add, sum);
        if (end + kAhead < n) {
          prefetch_row(w + sorted[end + kAhead].row * width, width);
          prefetch_row(v + sorted[end + kAhead].row * width, width);
          prefetch_row(values + sorted[end + kAhead].position * width, width);
        }
        const auto at = sorted[first].row * width;
        const SgdTensor<T> row{w + at, g, v + at, width};
        sgd_update<T>({&row, 1}, lr, options);
      });
    });
  }
};

std::unique_ptr<Plan> plan_sgd_rows(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SgdAttrs>();
  const Shape& w = request.in[0].shape;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    const auto width = row_size(w);
    const SgdRows<T> run{{a.momentum, a.weight_decay, a.nesterov},
                         w.numel(),
                         w[0],
                         request.in[2].shape[0],
                         width,
                         RowAdd<T>(width),
                         std::max(request.threads, 1),
                         request.in[4].dtype};
    return make_plan(run.scratch(), run);
  });
}

std::unique_ptr<Plan> plan_coalesce(const PlanRequest& request) {
  const auto n = request.in[0].shape[0], width = row_size(request.in[1].shape);
  return reference::for_floats(request.in[1].dtype, [&]<class T>() {
    return make_plan(sort_bytes(n), [=, add = RowAdd<T>(width)](const Launch& launch) {
      auto* entries = static_cast<RowEntry*>(launch.scratch);
      const RowEntry* sorted = sort_by_row(static_cast<const std::int64_t*>(launch.in[0]), n, entries, entries + n);
      auto* rows = static_cast<std::int64_t*>(launch.out[0]);
      auto* out = static_cast<T*>(launch.out[1]);
      for_groups(sorted, n, 0, n, [&](std::int64_t first, std::int64_t end) {
        const T* sum = sum_of(sorted, first, end, static_cast<const T*>(launch.in[1]), width, add, out);
        if (sum != out && width > 0) std::memcpy(out, sum, static_cast<std::size_t>(width) * sizeof(T));
        *rows++ = sorted[first].row;
        out += width;
      });
    });
  });
}

}  // namespace

void register_cpu_row_sparse(KernelTable& table) {
  table.add("sgd_update_rows", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_sgd_rows});
  table.add("coalesce_rows", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_coalesce});
}

}  // namespace starling::kernels
