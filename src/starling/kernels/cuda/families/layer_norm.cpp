#include "starling/kernels/cuda/norm_plans.h"

namespace starling::kernels {

void register_cuda_layer_norm(KernelTable& table) {
  cuda::add_norm(table, "layer_norm");
  cuda::add_norm(table, "rms_norm");
}

}  // namespace starling::kernels
