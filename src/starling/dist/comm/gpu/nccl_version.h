#pragma once

namespace starling::dist {

// Version of NCCL, major · 10000 + minor · 100 + patch; 0 in builds without it.
int nccl_version();

}  // namespace starling::dist
