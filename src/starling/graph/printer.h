#pragma once

#include <string>

#include "starling/graph/graph.h"

namespace starling::graph {

// Versioned text of a graph; parse_graph() reads it back.
//   starling-graph 1
//   variable 0 "fc1.weight" f32[512, 784]
//   constant 0 i64[2] {0, 1}
//   %0 = input {index=0, shape=[64, 784]}                          : f32[64, 784]
//   %1 = variable {index=0, shape=[512, 784]}                      : f32[512, 784]
//   %2 = linear(%0, %1) {activation="relu"} @"mlp/fc1" origin=%0   : f32[64, 512]
//   assign(%7) {index=0} after=(%5)
//   init 0 %9
//   target "train" (#8, #12)
//   return %2
// Control-flow bodies stand before the nodes, each in the same form:
//   body 0 {
//     %0 = input {dtype=i64} : i64[]
//     return %0
//   }
// A named value shows its name after its type: `: f32[64, 512] "hidden"`. `init` gives a variable's initial value,
// `target` a named group of nodes. A node is identified by its first output; one without outputs by #k, its index among
// the nodes.
std::string print(const Graph& graph);

// Short form without scopes, shapes of sources and other detail, for golden tests.
std::string print_short(const Graph& graph);

}  // namespace starling::graph
