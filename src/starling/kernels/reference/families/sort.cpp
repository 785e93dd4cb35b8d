#include "starling/ops/api/sort.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

// Order in which NaN is greater than any number.
template <class T>
bool before(T a, T b) {
  if constexpr (reference::kIsHalf<T>) {
    return before(a.to_float(), b.to_float());
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    }
    return a < b;
  }
}

struct Lines {
  std::int64_t outer = 1, size = 0, inner = 1;
  Lines(const Shape& shape, std::int64_t given) {
    const int axis = normalize_axis(given, shape.rank(), "sort");
    size = shape[axis];
    for (int d = 0; d < shape.rank(); ++d) (d < axis ? outer : inner) *= d == axis ? 1 : shape[d];
  }
};

// Indices of a line's elements in sorted order.
template <class T>
std::vector<std::int64_t> ordered(const T* line, std::int64_t size, std::int64_t stride, bool descending) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return descending ? before(line[b * stride], line[a * stride]) : before(line[a * stride], line[b * stride]);
  });
  return order;
}

// Writes the first `kept` of every line; in order of position unless sorted.
struct Choice {
  bool descending;
  std::int64_t kept;
  bool sorted = true;
};

std::unique_ptr<Plan> plan_lines(const PlanRequest& request, std::int64_t axis, const Choice& choice) {
  const Lines lines(request.in[0].shape, axis);
  const bool values = request.out.size() == 2;
  return dispatch(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      auto* indices = static_cast<std::int64_t*>(launch.out[values ? 1 : 0]);
      for (std::int64_t l = 0; l < lines.outer * lines.inner; ++l) {
        const std::int64_t o = l / lines.inner, j = l % lines.inner;
        const T* line = static_cast<const T*>(launch.in[0]) + o * lines.size * lines.inner + j;
        auto order = ordered(line, lines.size, lines.inner, choice.descending);
        order.resize(static_cast<std::size_t>(choice.kept));
        if (!choice.sorted) std::sort(order.begin(), order.end());
        for (std::int64_t i = 0; i < choice.kept; ++i) {
          const std::int64_t at = (o * choice.kept + i) * lines.inner + j, from = order[static_cast<std::size_t>(i)];
          indices[at] = from;
          if (values) static_cast<T*>(launch.out[0])[at] = line[from * lines.inner];
        }
      }
    });
  });
}

std::unique_ptr<Plan> plan_sort(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SortAttrs>();
  const Shape& shape = request.in[0].shape;
  return plan_lines(request, a.axis, {a.descending, shape[normalize_axis(a.axis, shape.rank(), "sort")]});
}

std::unique_ptr<Plan> plan_topk(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::TopkAttrs>();
  return plan_lines(request, a.axis, {a.largest, a.k, a.sorted});
}

std::unique_ptr<Plan> plan_unique(const PlanRequest& request) {
  const std::int64_t n = request.in[0].shape.numel();
  return dispatch(request.in[0].dtype, [&]<class T>() {
    return make_plan([n](const Launch& launch) {
      const T* x = static_cast<const T*>(launch.in[0]);
      T* values = static_cast<T*>(launch.out[0]);
      auto* inverse = static_cast<std::int64_t*>(launch.out[1]);
      auto* counts = static_cast<std::int64_t*>(launch.out[2]);
      std::int64_t found = 0;
      for (const auto at : ordered(x, n, 1, false)) {
        if (found == 0 || before(values[found - 1], x[at])) {
          values[found] = x[at];
          counts[found++] = 0;
        }
        inverse[at] = found - 1;
        ++counts[found - 1];
      }
    });
  });
}

}  // namespace

void register_reference_sort(KernelTable& table) {
  table.add("sort", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_sort));
  table.add("argsort", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_sort));
  table.add("topk", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_topk));
  table.add("unique", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_unique));
}

}  // namespace starling::kernels
