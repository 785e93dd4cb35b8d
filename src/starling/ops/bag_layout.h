#pragma once

#include "starling/ops/embedding.h"
#include "starling/ops/op_def.h"

namespace starling {

// Reads the layout off the operands' types; throws "[op] expected …" where they fit none. `scaled`: a scale may follow.
BagLayout bag_layout(const OpDef& op, std::span<const TensorType> in, bool scaled = true);

}  // namespace starling
