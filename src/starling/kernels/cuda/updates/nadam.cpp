#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_nadam(UpdateCodes& codes) {
  codes["nadam_update"] = {
      "const double now = beta1 * (1 - 0.5 * pow(0.96, t * momentum_decay)),"
      " next = beta1 * (1 - 0.5 * pow(0.96, (t + 1) * momentum_decay));"
      "c0 = F(lr * (1 - now) / (1 - mu)); c1 = F(lr * next / (1 - mu * next)); c2 = F(1 / (1 - pow(beta2, t)));"
      "c3 = F(lr * weight_decay);",
      std::string("if (decoupled) x0 -= c3 * x0; else g += F(weight_decay) * x0;") + kMoveMoments +
          "const float deviation = sqrtf(x2 * c2) + F(eps); x0 -= c0 * g / deviation; x0 -= c1 * x1 / deviation;"};
}

}  // namespace starling::cuda
