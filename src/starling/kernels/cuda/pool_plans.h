#pragma once

#include <limits>

#include "starling/kernels/cuda/device/pool.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/ops/def/pool_geometry.h"

namespace starling::cuda {

// Windows for device code; false if a size exceeds what it counts with.
inline bool device_pool(const PoolGeometry& g, bool even, device::Pool& pool) {
  pool = {g.planes, {}, true, 0, 2};
  if (g.in_volume() > std::numeric_limits<int>::max() / 2 || g.out_volume() > std::numeric_limits<int>::max() / 2)
    return false;
  for (std::size_t d = 0; d < 3; ++d) {
    const PoolAxis& a = g.axes[d];
    for (auto size : {a.kernel, a.stride, a.padding, a.dilation, a.kernel * a.dilation}) {
      if (size > std::numeric_limits<int>::max() / 4) return false;
    }
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    pool.axes[d] = {number(a.in),       number(a.out), number(a.kernel), number(a.stride), number(a.padding),
                    number(a.dilation), even};
  }
  return true;
}

// Windows of adaptive and global pooling, from the shapes of both sides.
inline PoolGeometry even_geometry(const Shape& x, const Shape& y) {
  PoolGeometry g;
  g.planes = x[0] * x[1];
  for (int i = 2; i < x.rank(); ++i) {
    PoolAxis& axis = g.axes[static_cast<std::size_t>(5 - x.rank() + i - 2)];
    axis.in = x[i];
    axis.out = y[i];
  }
  return g;
}

// Plan of a pooling with float results, and positions if there is a second result.
inline std::unique_ptr<kernels::Plan> plan_pool(const kernels::PlanRequest& request, device::PoolKind kind,
                                                const device::Pool& pool) {
  if (request.out[0].shape.numel() == 0) return kernels::make_plan([](const kernels::Launch&) {});
  check_cuda(device::load_pool(kind), "loading a kernel");
  return kernels::make_plan([=, indexed = request.out.size() > 1](const kernels::Launch& launch) {
    check_cuda(device::launch_pool(kind, pool, input<float>(launch, 0), output<float>(launch, 0),
                                   indexed ? output<int>(launch, 1) : nullptr, stream_of(launch)),
               "launching a pooling");
  });
}

}  // namespace starling::cuda
