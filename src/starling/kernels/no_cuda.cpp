#include "starling/kernels/kernel_table.h"

namespace starling::kernels {

void register_device_kernels(KernelTable&) {}

}  // namespace starling::kernels
