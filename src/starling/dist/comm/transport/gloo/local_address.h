#pragma once

#include <string>

#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::wire {

// Where to listen, in digits. Throws Error unless it is an address of this host.
std::string local_address(const GlooOptions& options);

}  // namespace starling::wire
