#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_rmsprop(UpdateCodes& codes) {
  codes["rmsprop_update"] = {"c0 = F(lr);",
                             "g += F(weight_decay) * x0; x1 = F(alpha) * x1 + F(1 - alpha) * g * g; float mean = 0;"
                             "if (centered) mean = x2 = F(alpha) * x2 + F(1 - alpha) * g;"
                             "const float variance = x1 - mean * mean;"
                             "float u = g / (sqrtf(variance < 0 ? 0 : variance) + F(eps));"
                             "if (momentum != 0) { float& b = centered ? x3 : x2; u = b = F(momentum) * b + u; }"
                             "x0 -= c0 * u;"};
}

}  // namespace starling::cuda
