#include "starling/base/error.h"
#include "starling/graph/export/tensorboard.h"

namespace starling::graph {

bool has_tensorboard_export() { return false; }

std::string to_tensorboard(const Graph& graph) { return tensorboard_graph_def(graph); }

std::string tensorboard_graph_def(const Graph&) {
  fail("[tensorboard] expected a build with protobuf (libprotobuf-dev, protobuf-compiler), got one without");
}

}  // namespace starling::graph
