#pragma once

#include "starling/graph/graph.h"

namespace starling {

// The same program with every float as f64, on the CPU: what its result would be with hardly any rounding. Random
// numbers stay those of the program given. Variables have no tensors: bind them to a container of f64.
Graph in_double(const Graph& graph);

// Its variables' and inputs' dtype there.
DType dtype_in_double(DType dtype);

}  // namespace starling
