#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_average(UpdateCodes& codes) {
  codes["average_update"] = {"c0 = F(lr); c1 = F(1 - lr);", "x0 = c1 * x0 + c0 * g;"};
}

}  // namespace starling::cuda
