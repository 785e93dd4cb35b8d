#include "starling/kernels/kernel_table.h"

namespace starling {

void register_device_kernels(KernelTable&) {}

}  // namespace starling
