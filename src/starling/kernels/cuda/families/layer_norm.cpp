#include "starling/kernels/cuda/norm_plans.h"

namespace starling::kernels {

void register_cuda_layer_norm(KernelTable& table) {
  cuda::add_norm(table, "layer_norm", cuda::NormStorage::mixed);
  cuda::add_norm(table, "rms_norm", cuda::NormStorage::mixed);
}

}  // namespace starling::kernels
