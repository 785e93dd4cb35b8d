#include "starling/kernels/cuda/update_code.h"

namespace starling::cuda {

void register_update_code_adagrad(UpdateCodes& codes) {
  codes["adagrad_update"] = {"c0 = F(lr / (1 + (t - 1) * lr_decay));",
                             "g += F(weight_decay) * x0; x1 += g * g; x0 -= c0 * g / (sqrtf(x1) + F(eps));"};
}

}  // namespace starling::cuda
