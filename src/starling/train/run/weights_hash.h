#pragma once

#include <span>
#include <string>

#include "starling/train/checkpoint/checkpoint.h"

namespace starling::train {

// 128-bit hash, in hex, over name, dtype, shape and bytes of all tensors in the order of their names: equal weights
// have equal hashes, and practically only those. Any memory format and device is accepted. Throws on a name given
// twice.
// Tensors on the null device lie elsewhere: `fetch` passes their bytes on.
std::string weights_hash(std::span<const NamedTensor> tensors, const FetchBytes& fetch = {});

}  // namespace starling::train
