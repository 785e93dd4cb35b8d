#pragma once

#include <string>

#include "starling/graph/graph.h"

namespace starling::graph {

// True if this build can write TensorBoard's files (needs protobuf).
bool has_tensorboard_export();

// Contents of an event file with the graph, for TensorBoard's graph page: nodes named by scope path, with output
// shapes, devices and attributes. The file's name must contain "tfevents". Throws in builds without protobuf.
std::string to_tensorboard(const Graph& graph);

// Serialized GraphDef, for event files that hold more than a graph.
std::string tensorboard_graph_def(const Graph& graph);

}  // namespace starling::graph
