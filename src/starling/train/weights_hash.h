#pragma once

#include <span>
#include <string>

#include "starling/data/host_bytes.h"

namespace starling {

// One 128-bit hash, in hex, over name, dtype, shape and bytes of all tensors, taken in the order of their names: two
// sets of weights are equal to the bit when, and practically only when, their hashes are. Any layout and device may be
// given. Throws on a name given twice.
std::string weights_hash(std::span<const NamedTensor> tensors);

}  // namespace starling
