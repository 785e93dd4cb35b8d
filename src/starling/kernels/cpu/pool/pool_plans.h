#pragma once

#include "starling/kernels/cpu/pool/pool.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Helpers of the plans of poolings, which read their first operand and write their first result.
template <class T>
const T* pool_operand(const Launch& launch) {
  return static_cast<const T*>(launch.in[0]);
}
template <class T>
T* pool_result(const Launch& launch) {
  return static_cast<T*>(launch.out[0]);
}

template <class Attributes>
PoolGeometry pool_geometry_of(const PlanRequest& r) {
  return pool_geometry(r.in[0].shape, r.attrs.as<Attributes>(), 0, r.op.name.c_str());
}
inline PoolWindows even_windows(const PlanRequest& r) { return even_windows(r.in[0].shape, r.out[0].shape); }

}  // namespace starling::kernels
