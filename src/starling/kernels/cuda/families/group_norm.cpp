#include "starling/kernels/cuda/norm_plans.h"

namespace starling::kernels {

void register_cuda_group_norm(KernelTable& table) {
  cuda::add_norm(table, "group_norm", cuda::NormStorage::computed);
  cuda::add_norm(table, "instance_norm", cuda::NormStorage::computed);
}

}  // namespace starling::kernels
