#include <cstring>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/index.h"
#include "starling/ops/def/attrs/index.h"

namespace starling::kernels {
namespace {

using reference::read;
using reference::write;

// Rows of x (its dimensions after the indexed axes) selected by index tensors.
struct Rows {
  std::string op;
  Shape sizes;             // of the indexed axes
  std::int64_t count = 0;  // of index elements
  std::int64_t row = 1;    // elements of a row
  std::size_t first = 1;   // operand that holds the first index tensor

  // Row selected by the i-th element of every index tensor.
  std::int64_t at(const Launch& launch, std::int64_t i) const {
    std::int64_t place = 0;
    for (int d = 0; d < sizes.rank(); ++d) {
      const auto v = static_cast<const std::int64_t*>(launch.in[first + static_cast<std::size_t>(d)])[i];
      if (v < -sizes[d] || v >= sizes[d]) {
        fail("[{}] expected indices in [{}, {}), got {} at position {} of index tensor {}", op, -sizes[d], sizes[d], v,
             i, d);
      }
      place = place * sizes[d] + (v < 0 ? v + sizes[d] : v);
    }
    return place;
  }
};

Rows rows_of(const PlanRequest& request, std::size_t first) {
  Rows rows{request.op.name, {}, request.in[first].shape.numel(), 1, first};
  const Shape& x = request.in[0].shape;
  const int axes = static_cast<int>(request.in.size() - first);
  for (int i = 0; i < x.rank(); ++i) {
    if (i < axes)
      rows.sizes.push_back(x[i]);
    else
      rows.row *= x[i];
  }
  return rows;
}

std::unique_ptr<Plan> plan_get(const PlanRequest& request, const Rows& rows) {
  const std::size_t bytes = static_cast<std::size_t>(rows.row) * size_of(request.in[0].dtype);
  return make_plan([=](const Launch& launch) {
    const auto* from = static_cast<const std::byte*>(launch.in[0]);
    auto* to = static_cast<std::byte*>(launch.out[0]);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const auto place = static_cast<std::size_t>(rows.at(launch, i));
      std::memcpy(to + static_cast<std::size_t>(i) * bytes, from + place * bytes, bytes);
    }
  });
}

std::unique_ptr<Plan> plan_put(const PlanRequest& request) {
  const Rows rows = rows_of(request, 2);
  const std::size_t size = size_of(request.in[0].dtype), bytes = static_cast<std::size_t>(rows.row) * size;
  const std::size_t whole = static_cast<std::size_t>(request.in[0].shape.numel()) * size;
  return make_plan([=](const Launch& launch) {
    auto* to = static_cast<std::byte*>(launch.out[0]);
    const auto* values = static_cast<const std::byte*>(launch.in[1]);
    std::memmove(to, launch.in[0], whole);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const auto place = static_cast<std::size_t>(rows.at(launch, i));
      std::memcpy(to + place * bytes, values + static_cast<std::size_t>(i) * bytes, bytes);
    }
  });
}

template <class V>
std::unique_ptr<Plan> plan_put_add(const PlanRequest& request) {
  const Rows rows = rows_of(request, 2);
  const DType dtype = request.in[0].dtype;
  const std::int64_t n = request.in[0].shape.numel();
  return make_plan(static_cast<std::size_t>(n) * sizeof(V), [=](const Launch& launch) {
    auto* sums = static_cast<V*>(launch.scratch);
    for (std::int64_t i = 0; i < n; ++i) sums[i] = read<V>(dtype, launch.in[0], i);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      V* row = sums + rows.at(launch, i) * rows.row;
      for (std::int64_t j = 0; j < rows.row; ++j) {
        const V v = read<V>(dtype, launch.in[1], i * rows.row + j);
        if constexpr (std::is_integral_v<V>)
          row[j] = static_cast<V>(static_cast<std::uint64_t>(row[j]) + static_cast<std::uint64_t>(v));
        else
          row[j] += v;
      }
    }
    for (std::int64_t i = 0; i < n; ++i) write<V>(dtype, launch.out[0], i, sums[i]);
  });
}

std::unique_ptr<Plan> plan_index_put(const PlanRequest& request) {
  if (!request.attrs.as<op::IndexPutAttrs>().accumulate) return plan_put(request);
  if (is_half(request.in[0].dtype)) return nullptr;
  return is_float(request.in[0].dtype) ? plan_put_add<double>(request) : plan_put_add<std::int64_t>(request);
}

std::unique_ptr<Plan> plan_take(const PlanRequest& request) {
  Rows rows{"take", {request.in[0].shape.numel()}, request.in[1].shape.numel(), 1, 1};
  return plan_get(request, rows);
}

std::unique_ptr<Plan> plan_nonzero(const PlanRequest& request) {
  const ArgDesc in = dense({request.in[0].dtype, request.in[0].shape});
  return make_plan([in](const Launch& launch) {
    auto* out = static_cast<std::int64_t*>(launch.out[0]);
    for (std::int64_t i = 0, n = in.shape.numel(); i < n; ++i) {
      if (read<double>(in.dtype, launch.in[0], i) == 0) continue;
      for (int d = 0; d < in.shape.rank(); ++d) *out++ = i / in.strides[d] % in.shape[d];
    }
  });
}

}  // namespace

void register_reference_index_put(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("index_get", [](const PlanRequest& r) { return plan_get(r, rows_of(r, 1)); });
  add("index_put", plan_index_put);
  add("take", plan_take);
  add("nonzero", plan_nonzero);
}

}  // namespace starling::kernels
