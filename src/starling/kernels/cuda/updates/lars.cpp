#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_lars(UpdateCodes& codes) {
  codes["lars_update"] = {"c0 = F(lr);", "x1 = F(momentum) * x1 + c0 * r * (g + F(weight_decay) * x0); x0 -= x1;",
                          "const float m = g;",
                          "r = wn > 0 && on > 0 ? F(trust) * wn / (on + F(weight_decay) * wn + F(eps)) : 1.f;"};
}

}  // namespace starling::cuda
