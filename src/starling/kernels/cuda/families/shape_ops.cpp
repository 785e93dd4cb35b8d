#include "starling/kernels/cuda/elementwise.h"

namespace starling::kernels {

void register_cuda_shape_ops(KernelTable& table) {
  table.add("reshape", DeviceKind::cuda, {"nvrtc", Accepts::strided, cuda::plan_copy});
}

}  // namespace starling::kernels
