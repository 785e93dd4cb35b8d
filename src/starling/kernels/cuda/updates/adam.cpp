#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_adam(UpdateCodes& codes) {
  codes["adam_update"] = {
      "c0 = F(lr / (1 - pow(beta1, t))); c1 = F(1 / (1 - pow(beta2, t))); c2 = F(lr * weight_decay);",
      std::string("if (decoupled) x0 -= c2 * x0; else g += F(weight_decay) * x0;") + kMoveMoments +
          "float second = x2; if (amsgrad) second = x3 = fmaxf(x3, x2);"
          "x0 -= c0 * x1 / (sqrtf(second * c1) + F(eps));"};
}

}  // namespace starling::cuda
