#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_adamax(UpdateCodes& codes) {
  codes["adamax_update"] = {"c0 = F(lr / (1 - pow(beta1, t)));",
                            "g += F(weight_decay) * x0; x1 = F(beta1) * x1 + F(1 - beta1) * g;"
                            "x2 = fmaxf(F(beta2) * x2, fabsf(g) + F(eps)); x0 -= c0 * x1 / x2;"};
}

}  // namespace starling::cuda
