#pragma once

#include "starling/tensor/tensor.h"

namespace starling::dist {

// Values of a tensor to read on the host: itself, or a copy of what lies on a device.
inline Tensor read_on_host(const Tensor& tensor) { return to(tensor, kCpu); }

// Calls fill(host) with a tensor on the host whose values are those of `tensor` afterwards: itself, or one that is then
// copied to its device. `keeps`: it begins with the values that are there.
template <class Fill>
void write_on_host(const Tensor& tensor, bool keeps, Fill fill) {
  if (tensor.device().kind == DeviceKind::cpu) return fill(tensor);
  const Tensor host = keeps ? to(tensor, kCpu) : empty(tensor.shape(), tensor.dtype());
  fill(host);
  copy_into(tensor, host);
}

}  // namespace starling::dist
