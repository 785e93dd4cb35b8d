#pragma once

#include "starling/graph/graph.h"

namespace starling::graph {

// The same program in f64 on the CPU, as a nearly exact reference. Random numbers stay those of the given program.
// Variables have no tensors: bind them to a container of f64.
Graph in_double(const Graph& graph);

// Dtype of a variable or input in that program.
DType dtype_in_double(DType dtype);

}  // namespace starling::graph
