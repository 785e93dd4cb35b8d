#pragma once

#include <string>

#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::dist::wire {

// Numeric address to listen on. Throws Error unless it belongs to this host.
std::string local_address(const GlooOptions& options);

}  // namespace starling::dist::wire
