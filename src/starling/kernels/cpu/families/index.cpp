#include "starling/ops/api/index.h"

#include <bit>
#include <type_traits>

#include "starling/base/error.h"
#include "starling/kernels/cpu/index/index_grid.h"
#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/cpu/simd/cast.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/index.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

// Geometry of gather and scatter: one index per element. The indexed tensor may be larger than the index along other
// axes.
struct IndexGeometry {
  std::string op;
  IndexGrid grid;
  Shape outer_shape{}, outer_strides{};
  std::int64_t stride = 1;            // stride of the indexed axis
  std::vector<std::int64_t> inner{};  // offsets of the inner elements; empty if contiguous

  std::int64_t outer_offset(std::int64_t o) const {
    std::int64_t at = 0;
    for (int d = outer_shape.rank() - 1; d >= 0; --d) {
      at += o % outer_shape[d] * outer_strides[d];
      o /= outer_shape[d];
    }
    return at;
  }
  std::int64_t inner_offset(std::int64_t j) const { return inner.empty() ? j : inner[static_cast<std::size_t>(j)]; }
  // Checks all indices before anything is written: a result that overwrites an operand is complete or untouched.
  const std::int64_t* checked(const void* indices) const {
    const auto* index = static_cast<const std::int64_t*>(indices);
    parallel_for(grid.outer * grid.count * grid.inner, 65536, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (index[i] >= 0 && index[i] < grid.size) continue;
        fail("[{}] expected indices in [0, {}), got {} at position {}", op, grid.size, index[i], i);
      }
    });
    return index;
  }
};

// Offsets, in a dense tensor `x` from axis `first` on, of the elements of the smaller `index`.
std::vector<std::int64_t> offsets_within(const Shape& x, const Shape& strides, const Shape& index, int first) {
  std::vector<std::int64_t> offsets;
  bool alike = true;
  for (int d = first; d < x.rank(); ++d) alike = alike && x[d] == index[d];
  if (alike) return offsets;
  std::int64_t count = 1;
  for (int d = first; d < x.rank(); ++d) count *= index[d];
  for (std::int64_t j = 0; j < count; ++j) {
    std::int64_t rest = j, at = 0;
    for (int d = x.rank() - 1; d >= first; --d) {
      at += rest % index[d] * strides[d];
      rest /= index[d];
    }
    offsets.push_back(at);
  }
  return offsets;
}

IndexGeometry geometry_of(const PlanRequest& request) {
  const Shape &x = request.in[0].shape, &index = request.in[1].shape;
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, x.rank(), "gather");
  const Shape strides = contiguous_strides(x);
  IndexGeometry geometry{request.op.name, {}};
  geometry.grid.count = index[axis];
  geometry.grid.size = x[axis];
  geometry.stride = strides[axis];
  for (int d = 0; d < axis; ++d) {
    geometry.grid.outer *= index[d];
    geometry.outer_shape.push_back(index[d]);
    geometry.outer_strides.push_back(strides[d]);
  }
  for (int d = axis + 1; d < x.rank(); ++d) geometry.grid.inner *= index[d];
  geometry.inner = offsets_within(x, strides, index, axis + 1);
  return geometry;
}

template <class T>
void gather_rows(const IndexGeometry& geometry, const T* x, const std::int64_t* index, T* out) {
  const IndexGrid& grid = geometry.grid;
  if (grid.outer * grid.count * grid.inner == 0) return;
  parallel_for(grid.outer * grid.count, 16384 / grid.inner + 1, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t o = begin / grid.count, run = std::min(grid.count - begin % grid.count, end - begin);
      const T* from = x + geometry.outer_offset(o);
      const std::int64_t *at = index + begin * grid.inner, *last = at + run * grid.inner;
      T* to = out + begin * grid.inner;
      if (grid.inner == 1) {
        while (at < last) *to++ = from[*at++ * geometry.stride];
      } else if (geometry.inner.empty()) {
        for (; at < last; at += grid.inner, to += grid.inner) {
          for (std::int64_t j = 0; j < grid.inner; ++j) to[j] = from[at[j] * geometry.stride + j];
        }
      } else {
        for (; at < last; at += grid.inner, to += grid.inner) {
          for (std::int64_t j = 0; j < grid.inner; ++j)
            to[j] = from[at[j] * geometry.stride + geometry.inner_offset(j)];
        }
      }
      begin += run;
    }
  });
}

// Scatter along the last axis, where elements are contiguous.
template <class T, class Write>
void scatter_line(const IndexGeometry& geometry, const WritePart& part, const std::int64_t* index, const T* src, T* to,
                  Write write) {
  const bool all = part.size_begin == 0 && part.size_end == geometry.grid.size;
  for (std::int64_t i = 0; i < geometry.grid.count; ++i) {
    if (!all && (index[i] < part.size_begin || index[i] >= part.size_end)) continue;
    write(to[index[i] * geometry.stride], src[i]);
  }
}

template <class T, class Write>
void scatter_rows(const IndexGeometry& geometry, const std::int64_t* index, const T* src, T* out, Write write) {
  const IndexGrid& grid = geometry.grid;
  for_each_part(grid, [&](const WritePart& part) {
    for (std::int64_t o = part.outer_begin; o < part.outer_end; ++o) {
      T* to = out + geometry.outer_offset(o);
      if (grid.inner == 1) {
        scatter_line(geometry, part, index + o * grid.count, src + o * grid.count, to, write);
        continue;
      }
      for (std::int64_t i = 0; i < grid.count; ++i) {
        for (std::int64_t j = part.inner_begin; j < part.inner_end; ++j) {
          const std::int64_t at = (o * grid.count + i) * grid.inner + j, v = index[at];
          if (v < part.size_begin || v >= part.size_end) continue;
          write(to[v * geometry.stride + geometry.inner_offset(j)], src[at]);
        }
      }
    }
  });
}

std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  return by_size(size_of(request.in[0].dtype), [&]<class T>() {
    return make_plan([geometry = geometry_of(request)](const Launch& launch) {
      gather_rows(geometry, static_cast<const T*>(launch.in[0]), geometry.checked(launch.in[1]),
                  static_cast<T*>(launch.out[0]));
    });
  });
}

template <class T, class Write>
std::unique_ptr<Plan> plan_scatter_as(const PlanRequest& request, Write write) {
  const std::size_t bytes = static_cast<std::size_t>(request.in[0].shape.numel()) * sizeof(T);
  return make_plan([geometry = geometry_of(request), bytes, write](const Launch& launch) {
    const auto* index = geometry.checked(launch.in[1]);
    parallel_copy(launch.out[0], launch.in[0], bytes);
    scatter_rows(geometry, index, static_cast<const T*>(launch.in[2]), static_cast<T*>(launch.out[0]), write);
  });
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& request) {
  return by_size(size_of(request.in[0].dtype), [&]<class T>() { return plan_scatter_as<T>(request, Replaces()); });
}

std::unique_ptr<Plan> plan_scatter_add(const PlanRequest& request) {
  return for_sums(request.in[0].dtype, [&]<class T>() { return plan_scatter_as<T>(request, Adds()); });
}

// Geometry of index_select and index_add: one index per row.
IndexGrid row_grid(const PlanRequest& request) {
  const Shape& x = request.in[0].shape;
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, x.rank(), "index_select");
  IndexGrid grid;
  for (int d = 0; d < x.rank(); ++d) (d < axis ? grid.outer : grid.inner) *= d == axis ? 1 : x[d];
  grid.count = request.in[1].shape[0];
  grid.size = x[axis];
  return grid;
}

const std::int64_t* checked_rows(const std::string& op, const IndexGrid& grid, const void* index) {
  const auto* rows = static_cast<const std::int64_t*>(index);
  for (std::int64_t i = 0; i < grid.count; ++i) {
    if (rows[i] < 0 || rows[i] >= grid.size) {
      fail("[{}] expected indices in [0, {}), got {} at position {}", op, grid.size, rows[i], i);
    }
  }
  return rows;
}

std::unique_ptr<Plan> plan_index_select(const PlanRequest& request) {
  return by_size(size_of(request.in[0].dtype), [&]<class T>() {
    return make_plan([grid = row_grid(request)](const Launch& launch) {
      const auto* rows = checked_rows("index_select", grid, launch.in[1]);
      if (grid.outer * grid.count * grid.inner == 0) return;
      select_rows(grid, rows, static_cast<const T*>(launch.in[0]), static_cast<T*>(launch.out[0]));
    });
  });
}

std::unique_ptr<Plan> plan_index_add(const PlanRequest& request) {
  return for_sums(request.in[0].dtype, [&]<class T>() {
    const std::size_t bytes = static_cast<std::size_t>(request.in[0].shape.numel()) * sizeof(T);
    return make_plan([grid = row_grid(request), bytes](const Launch& launch) {
      const auto* rows = checked_rows("index_add", grid, launch.in[1]);
      parallel_copy(launch.out[0], launch.in[0], bytes);
      write_rows(grid, rows, static_cast<const T*>(launch.in[2]), static_cast<T*>(launch.out[0]), Adds());
    });
  });
}

std::unique_ptr<Plan> plan_one_hot(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::OneHotAttrs>();
  return by_size(size_of(a.dtype), [&]<class T>() {
    T one{};
    const double value = 1;
    cast_array(DType::f64, &value, a.dtype, &one, 1);
    return make_plan([one, n = request.in[0].shape.numel(), classes = a.classes](const Launch& launch) {
      const auto* index = static_cast<const std::int64_t*>(launch.in[0]);
      T* out = static_cast<T*>(launch.out[0]);
      parallel_for(n, 65536 / classes + 1, [&](std::int64_t begin, std::int64_t end) {
        std::fill(out + begin * classes, out + end * classes, T{});
        for (std::int64_t i = begin; i < end; ++i) {
          if (index[i] < 0 || index[i] >= classes) {
            fail("[one_hot] expected indices in [0, {}), got {} at position {}", classes, index[i], i);
          }
          out[i * classes + index[i]] = one;
        }
      });
    });
  });
}

}  // namespace

void register_cpu_index(KernelTable& table) {
  table.add("gather", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_gather});
  table.add("scatter", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_scatter});
  table.add("scatter_add", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_scatter_add});
  table.add("index_select", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_index_select});
  table.add("index_add", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_index_add});
  table.add("one_hot", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_one_hot});
}

}  // namespace starling::kernels
