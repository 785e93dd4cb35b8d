#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_lion(UpdateCodes& codes) {
  codes["lion_update"] = {"c0 = F(lr);",
                          "const float c = F(beta1) * x1 + F(1 - beta1) * g, u = c > 0 ? 1.f : c < 0 ? -1.f : c;"
                          "x1 = F(beta2) * x1 + F(1 - beta2) * g; x0 -= c0 * (u + F(weight_decay) * x0);"};
}

}  // namespace starling::cuda
