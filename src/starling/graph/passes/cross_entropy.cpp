#include "starling/graph/pass.h"
namespace starling::passes {
Graph cross_entropy(const Graph& graph, const PassContext&) { return graph; }
}  // namespace starling::passes
