#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "starling/base/error.h"
#include "starling/graph/parser.h"
#include "starling/graph/pass.h"
#include "starling/graph/printer.h"
#include "starling/graph/verifier.h"

namespace starling::graph {

// Parses a graph text given without its first line, so that tests show only what matters.
inline Graph graph_of(const std::string& body) { return parse_graph("starling-graph 1\n" + body); }

// The pass of this name on a graph.
inline Graph run_pass(std::string_view name, const Graph& graph, const PassContext& context = {}) {
  for (const Pass& pass : all_passes()) {
    if (pass.name == name) return pass.run(graph, context);
  }
  fail("[testing] expected the name of a pass, got '{}'", name);
}

// Result of a pass on a graph, verified.
inline Graph after(std::string_view pass, const Graph& graph) {
  Graph made = run_pass(pass, graph);
  verify(made, "the pass under test");
  return made;
}

inline std::string shown_after(std::string_view pass, const std::string& body) {
  return "\n" + print_short(after(pass, graph_of(body)));
}

inline void expect_unchanged_by(std::string_view pass, const std::string& body) {
  EXPECT_EQ(print_short(after(pass, graph_of(body))), print_short(graph_of(body)));
}

}  // namespace starling::graph
