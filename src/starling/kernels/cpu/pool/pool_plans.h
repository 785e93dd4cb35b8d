#pragma once

#include "starling/kernels/cpu/pool/pool.h"
#include "starling/kernels/kernel.h"
#include "starling/kernels/launch_args.h"

namespace starling::kernels {

template <class Attributes>
PoolGeometry pool_geometry_of(const PlanRequest& r) {
  return pool_geometry(r.in[0].shape, r.attrs.as<Attributes>(), 0, r.op.name.c_str());
}
inline PoolWindows even_windows(const PlanRequest& r) { return even_windows(r.in[0].shape, r.out[0].shape); }

}  // namespace starling::kernels
