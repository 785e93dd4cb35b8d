// Stands in for nccl/ in builds without NCCL.
#include "starling/base/error.h"
#include "starling/dist/comm/gpu/nccl_comm.h"
#include "starling/dist/comm/gpu/nccl_version.h"

namespace starling::dist {

std::shared_ptr<const NcclApi> nccl_api(int device) {
  fail("[nccl] expected a build with CUDA and NCCL for device {}, got one without: configure with -DSTARLING_CUDA=ON",
       device);
}

bool has_nccl() { return false; }
int nccl_version() { return 0; }

}  // namespace starling::dist
