#pragma once

#include <string>

#include "starling/graph/graph.h"

namespace starling {

// Whether this build can write TensorBoard's files: it needs protobuf.
bool has_tensorboard_export();

// The contents of an event file with the graph in it, for TensorBoard's graph page: nodes named by scope path, with
// output shapes, devices and attributes. The file's name must hold "tfevents". Throws in builds without protobuf.
std::string to_tensorboard(const Graph& graph);

// The graph alone, as a serialized GraphDef: for event files that hold more than a graph.
std::string tensorboard_graph_def(const Graph& graph);

}  // namespace starling
