#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_momentum(UpdateCodes& codes) {
  codes["momentum_update"] = {
      "c0 = F(lr);",
      "g += F(weight_decay) * x0; float d = g;"
      "if (momentum != 0) { x1 = F(momentum) * x1 + g; d = nesterov ? g + F(momentum) * x1 : x1; }"
      "x0 -= c0 * d;"};
}

}  // namespace starling::cuda
