#include "starling/ops/api/index.h"

#include <cstring>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/moved.h"
#include "starling/ops/def/attrs/index.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

using reference::Index;
using reference::read;
using reference::write;

// Calls f(offset in x, number of the element) for every element of an index tensor, in order. The index replaces the
// coordinate of one axis.
struct IndexWalk {
  std::string op;
  ArgDesc x, index;
  int axis;
  bool row;  // index selects whole rows: it varies along the axis alone

  std::int64_t checked(const void* indices, std::int64_t number) const {
    const auto v = static_cast<const std::int64_t*>(indices)[number];
    check(v >= 0 && v < x.shape[axis], "[{}] expected indices in [0, {}), got {} at position {}", op, x.shape[axis], v,
          number);
    return v;
  }

  template <class F>
  void each(const void* indices, const Shape& over, F f) const {
    // Checks all indices first: rows may be empty, and a wrong index must throw even then.
    for (std::int64_t i = 0; i < index.shape.numel(); ++i) checked(indices, i);
    Index at{};
    for (std::int64_t i = 0, n = over.numel(); i < n; ++i) {
      const std::int64_t v = checked(indices, row ? at[static_cast<std::size_t>(axis)] : i);
      std::int64_t offset = 0;
      for (int d = 0; d < x.shape.rank(); ++d)
        offset += (d == axis ? v : at[static_cast<std::size_t>(d)]) * x.strides[d];
      f(offset, i);
      for (int d = over.rank() - 1; d >= 0; --d) {
        if (++at[static_cast<std::size_t>(d)] < over[d]) break;
        at[static_cast<std::size_t>(d)] = 0;
      }
    }
  }
};

IndexWalk walk_of(const PlanRequest& request, bool row) {
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, request.in[0].shape.rank(), "index");
  return {request.op.name, request.in[0], request.in[1], axis, row};
}

std::unique_ptr<Plan> plan_read(const PlanRequest& request, bool row) {
  const std::size_t size = size_of(request.in[0].dtype);
  return make_plan([walk = walk_of(request, row), size, over = request.out[0].shape](const Launch& launch) {
    const auto* from = static_cast<const std::byte*>(launch.in[0]);
    auto* to = static_cast<std::byte*>(launch.out[0]);
    walk.each(launch.in[1], over, [&](std::int64_t offset, std::int64_t i) {
      std::memcpy(to + static_cast<std::size_t>(i) * size, from + static_cast<std::size_t>(offset) * size, size);
    });
  });
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& request) {
  const std::size_t size = size_of(request.in[0].dtype);
  const ArgDesc src = request.in[2];
  return make_plan([walk = walk_of(request, false), size, src](const Launch& launch) {
    auto* to = static_cast<std::byte*>(launch.out[0]);
    const auto* from = static_cast<const std::byte*>(launch.in[2]);
    std::memmove(to, launch.in[0], static_cast<std::size_t>(walk.x.shape.numel()) * size);
    walk.each(launch.in[1], src.shape, [&](std::int64_t offset, std::int64_t i) {
      std::memcpy(to + static_cast<std::size_t>(offset) * size, from + static_cast<std::size_t>(i) * size, size);
    });
  });
}

// Sums in double or i64, rounded once at the end.
template <class V>
std::unique_ptr<Plan> plan_add_as(const PlanRequest& request, bool row) {
  const std::int64_t n = request.in[0].shape.numel();
  const DType dtype = request.in[0].dtype;
  const Shape over = request.in[2].shape;
  return make_plan(
      static_cast<std::size_t>(n) * sizeof(V), [walk = walk_of(request, row), n, dtype, over](const Launch& launch) {
        auto* sums = static_cast<V*>(launch.scratch);
        for (std::int64_t i = 0; i < n; ++i) sums[i] = read<V>(dtype, launch.in[0], i);
        walk.each(launch.in[1], over, [&](std::int64_t offset, std::int64_t i) {
          const V v = read<V>(dtype, launch.in[2], i);
          if constexpr (std::is_integral_v<V>)
            sums[offset] = static_cast<V>(static_cast<std::uint64_t>(sums[offset]) + static_cast<std::uint64_t>(v));
          else
            sums[offset] += v;
        });
        for (std::int64_t i = 0; i < n; ++i) write<V>(dtype, launch.out[0], i, sums[i]);
      });
}

std::unique_ptr<Plan> plan_add(const PlanRequest& request, bool row) {
  if (is_half(request.in[0].dtype)) return nullptr;
  if (is_float(request.in[0].dtype)) return plan_add_as<double>(request, row);
  return plan_add_as<std::int64_t>(request, row);
}

std::unique_ptr<Plan> plan_one_hot(const PlanRequest& request) {
  const auto a = request.attrs.as<op::OneHotAttrs>();
  const std::int64_t n = request.in[0].shape.numel();
  return make_plan([=](const Launch& launch) {
    const auto* index = static_cast<const std::int64_t*>(launch.in[0]);
    for (std::int64_t i = 0; i < n; ++i) {
      check(index[i] >= 0 && index[i] < a.classes, "[one_hot] expected indices in [0, {}), got {} at position {}",
            a.classes, index[i], i);
      for (std::int64_t c = 0; c < a.classes; ++c)
        write<double>(a.dtype, launch.out[0], i * a.classes + c, c == index[i] ? 1 : 0);
    }
  });
}

}  // namespace

void register_reference_index(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("gather", [](const PlanRequest& r) { return plan_read(r, false); });
  add("scatter", plan_scatter);
  add("scatter_add", [](const PlanRequest& r) { return plan_add(r, false); });
  add("index_select", [](const PlanRequest& r) { return plan_read(r, true); });
  add("index_add", [](const PlanRequest& r) { return plan_add(r, true); });
  add("one_hot", plan_one_hot);
}

}  // namespace starling::kernels
