#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_lamb(UpdateCodes& codes) {
  const std::string direction =
      std::string(kMoveMoments) + "const float u = x1 * c1 / (sqrtf(x2 * c2) + F(eps)) + F(weight_decay) * x0;";
  codes["lamb_update"] = {"c0 = F(lr); c1 = F(1 / (1 - pow(beta1, t))); c2 = F(1 / (1 - pow(beta2, t)));",
                          direction + "x0 -= c0 * r * u;", direction + "const float m = u;",
                          "r = wn > 0 && on > 0 ? wn / on : 1.f;"};
}

}  // namespace starling::cuda
