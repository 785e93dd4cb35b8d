#include "starling/base/error.h"
#include "starling/kernels/cpu/index/index_grid.h"
#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/index.h"
#include "starling/ops/def/attrs/index.h"

namespace starling::kernels {
namespace {

// Index tensors of the leading axes, each element naming a row of x. Row numbers are computed in scratch.
struct Rows {
  std::string op;
  IndexGrid grid;     // outer is 1
  Shape sizes{};      // of the indexed axes
  std::size_t first;  // operand that holds the first index tensor

  std::size_t scratch_bytes() const { return static_cast<std::size_t>(grid.count) * sizeof(std::int64_t); }

  const std::int64_t* numbers(const Launch& launch) const {
    auto* rows = static_cast<std::int64_t*>(launch.scratch);
    std::fill_n(rows, grid.count, 0);
    for (int d = 0; d < sizes.rank(); ++d) {
      const auto* index = static_cast<const std::int64_t*>(launch.in[first + static_cast<std::size_t>(d)]);
      for (std::int64_t i = 0; i < grid.count; ++i) {
        const std::int64_t v = index[i];
        if (v < -sizes[d] || v >= sizes[d]) {
          fail("[{}] expected indices in [{}, {}), got {} at position {} of index tensor {}", op, -sizes[d], sizes[d],
               v, i, d);
        }
        rows[i] = rows[i] * sizes[d] + (v < 0 ? v + sizes[d] : v);
      }
    }
    return rows;
  }
};

Rows rows_of(const PlanRequest& request, std::size_t first) {
  Rows rows{request.op.name, {.count = request.in[first].shape.numel(), .size = 1}, {}, first};
  const Shape& x = request.in[0].shape;
  const int axes = static_cast<int>(request.in.size() - first);
  for (int i = 0; i < x.rank(); ++i) {
    if (i < axes) rows.sizes.push_back(x[i]);
    (i < axes ? rows.grid.size : rows.grid.inner) *= x[i];
  }
  return rows;
}

std::unique_ptr<Plan> plan_get(const PlanRequest& request, const Rows& rows) {
  return by_size(size_of(request.in[0].dtype), [&]<class T>() {
    return make_plan(rows.scratch_bytes(), [rows](const Launch& launch) {
      const auto* numbers = rows.numbers(launch);
      if (rows.grid.count * rows.grid.inner == 0) return;
      select_rows(rows.grid, numbers, static_cast<const T*>(launch.in[0]), static_cast<T*>(launch.out[0]));
    });
  });
}

template <class T, class Write>
std::unique_ptr<Plan> plan_put(const PlanRequest& request, Write write) {
  const Rows rows = rows_of(request, 2);
  const std::size_t bytes = static_cast<std::size_t>(request.in[0].shape.numel()) * sizeof(T);
  return make_plan(rows.scratch_bytes(), [=](const Launch& launch) {
    const auto* numbers = rows.numbers(launch);
    parallel_copy(launch.out[0], launch.in[0], bytes);
    write_rows(rows.grid, numbers, static_cast<const T*>(launch.in[1]), static_cast<T*>(launch.out[0]), write);
  });
}

std::unique_ptr<Plan> plan_index_put(const PlanRequest& request) {
  const DType dtype = request.in[0].dtype;
  if (request.attrs.as<op::IndexPutAttrs>().accumulate) {
    return for_sums(dtype, [&]<class T>() { return plan_put<T>(request, Adds()); });
  }
  return by_size(size_of(dtype), [&]<class T>() { return plan_put<T>(request, Replaces()); });
}

std::unique_ptr<Plan> plan_take(const PlanRequest& request) {
  const std::int64_t n = request.in[0].shape.numel();
  return plan_get(request, {"take", {.count = request.in[1].shape.numel(), .size = n}, {n}, 1});
}

}  // namespace

void register_cpu_index_put(KernelTable& table) {
  table.add("index_get", DeviceKind::cpu,
            {"rows", Accepts::contiguous, [](const PlanRequest& r) { return plan_get(r, rows_of(r, 1)); }});
  table.add("index_put", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_index_put});
  table.add("take", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_take});
}

}  // namespace starling::kernels
