#pragma once

#include <gtest/gtest.h>

#include <string>

#include "starling/graph/parser.h"
#include "starling/graph/pass.h"
#include "starling/graph/printer.h"
#include "starling/graph/verifier.h"

namespace starling {

// Parses a graph text given without its first line, so that tests show only what matters.
inline Graph graph_of(const std::string& body) { return parse_graph("starling-graph 1\n" + body); }

// Result of a pass on a graph, verified.
inline Graph after(Graph (*pass)(const Graph&, const PassContext&), const Graph& graph) {
  Graph made = pass(graph, PassContext{});
  verify(made, "the pass under test");
  return made;
}

inline std::string shown_after(Graph (*pass)(const Graph&, const PassContext&), const std::string& body) {
  return "\n" + print_short(after(pass, graph_of(body)));
}

inline void expect_unchanged_by(Graph (*pass)(const Graph&, const PassContext&), const std::string& body) {
  EXPECT_EQ(print_short(after(pass, graph_of(body))), print_short(graph_of(body)));
}

}  // namespace starling
