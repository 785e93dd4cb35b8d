#include "starling/kernels/kernel_table.h"

namespace starling::kernels {

void register_cuda_kernels(KernelTable& into);  // generated from the families found in the source tree

void register_device_kernels(KernelTable& into) { register_cuda_kernels(into); }

}  // namespace starling::kernels
