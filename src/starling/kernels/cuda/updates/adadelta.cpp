#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_adadelta(UpdateCodes& codes) {
  codes["adadelta_update"] = {"c0 = F(lr);",
                              "g += F(weight_decay) * x0; x1 = F(rho) * x1 + F(1 - rho) * g * g;"
                              "const float u = sqrtf(x2 + F(eps)) / sqrtf(x1 + F(eps)) * g;"
                              "x2 = F(rho) * x2 + F(1 - rho) * u * u; x0 -= c0 * u;"};
}

}  // namespace starling::cuda
