#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>

#include "graph/passes_testing.h"
#include "starling/base/error.h"
#include "starling/base/hash/crc32c.h"
#include "starling/graph/export/dot.h"
#include "starling/graph/export/layered_drawing.h"
#include "starling/graph/export/naming.h"
#include "starling/graph/export/record_file.h"
#include "starling/graph/export/svg.h"

namespace starling::graph {
namespace {

const char* const kBody = R"(variable 0 "net.fc.weight" f32[5, 4]
%0 = input {shape=[3, 4]} : f32[3, 4]
%1 = variable {shape=[5, 4]} : f32[5, 4]
%2 = linear(%0, %1) {activation="relu"} @"net/fc" : f32[3, 5]
%3 = tanh(%2) @"net/act <1>" device=cuda:1 : f32[3, 5]
%4 = tanh_backward(%3, %3) origin=%3 after=(%2) device=cuda:1 : f32[3, 5]
%5 = matmul(%4, %0) {trans_a=true} origin=%2 : f32[5, 4]
assign(%5)
return %3
)";

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(Names, GradientsAndUpdatesHaveScopesOfTheirOwnAndPathsAreUnique) {
  const Graph graph = graph_of(kBody);
  const GraphNames names(graph);
  EXPECT_EQ(names.scope(1), "net/fc");
  EXPECT_EQ(names.name(1), "weight");
  EXPECT_EQ(names.scope(4), "gradients/net/act <1>");
  EXPECT_EQ(names.scope(6), "update/net/fc");
  const auto paths = unique_paths(graph);
  EXPECT_EQ(paths[2], "net/fc/linear");
  EXPECT_EQ(paths[5], "gradients/net/fc/matmul");
  const Graph twice = graph_of(
      "%0 = input {shape=[2]}\n%1 = neg(%0) @\"a\"\n%2 = neg(%1) @\"a\"\n%3 = neg(%2)\n%4 = "
      "neg(%3) @\"neg\"\nreturn %4\n");
  auto unique = unique_paths(twice);
  EXPECT_EQ(unique[1], "a/neg");
  EXPECT_EQ(unique[2], "a/neg_1");
  EXPECT_EQ(unique[3], "neg_1");  // "neg" is a scope
  std::sort(unique.begin(), unique.end());
  EXPECT_EQ(std::unique(unique.begin(), unique.end()), unique.end());
}

TEST(Dot, NestsScopesLabelsEdgesAndTellsFormsAndDevices) {
  const std::string dot = to_dot(graph_of(kBody), "a \"title\"");
  EXPECT_EQ(dot.find("digraph \"a \\\"title\\\"\" {"), 0U);
  const auto outer = dot.find("subgraph \"cluster_net\""), inner = dot.find("subgraph \"cluster_net/fc\"");
  ASSERT_NE(outer, std::string::npos);
  ASSERT_NE(inner, std::string::npos);
  EXPECT_LT(outer, inner);
  EXPECT_NE(dot.find("n0 -> n2 [label=\"f32[3, 4]\"]"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n2 -> n4 [style=dashed"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n0 [label=\"input 0\", shape=invhouse"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n1 [label=\"weight\", shape=cylinder"), std::string::npos) << dot;
  EXPECT_NE(dot.find("activation=\\\"relu\\\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("n3 -> out0"), std::string::npos) << dot;
  EXPECT_NE(dot.find(fmt::format("label=\"cuda:1\", shape=plaintext, style=filled, fillcolor=\"{}\"",
                                 device_colour({DeviceKind::cuda, 1}))),
            std::string::npos)
      << dot;
  EXPECT_NE(device_colour(kCpu), device_colour({DeviceKind::cuda, 1}));
  EXPECT_EQ(count(dot, "{"), count(dot, "}"));
}

TEST(Svg, DrawsEveryNodeOnceWithItsTypesAndEscapesWhatIsMarkup) {
  const Graph graph = graph_of(kBody);
  const std::string svg = to_svg(graph, "a < b & c");
  EXPECT_EQ(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\""), 0U);
  EXPECT_EQ(count(svg, "<g class=\"n\""), static_cast<std::size_t>(graph.size()) + 1);  // and the output
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_NE(svg.find(">f32[3, 5]<"), std::string::npos);
  EXPECT_NE(svg.find("@net/act &lt;1&gt;"), std::string::npos);
  EXPECT_EQ(count(svg, "<g"), count(svg, "</g>"));
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(count(svg, "<title>"), count(svg, "</title>"));
}

TEST(Svg, DrawsManyAssignsOfOneUpdateAsOneBox) {
  std::string variables, reads, in, out, assigns;
  for (int i = 0; i < 12; ++i) {
    variables += fmt::format("variable {} \"w{}\" f32[3]\n", i, i);
    reads += fmt::format("%{} = variable {{index={}, shape=[3]}}\n", i, i);
    in += fmt::format("%{}, ", i);
    out += fmt::format("{}%u{}", i % 12 ? ", " : "", i);
    if (i < 6) assigns += fmt::format("assign(%u{}) {{index={}}}\n", i, i);
  }
  // Six weights, six velocities; six gradients are the velocities once more.
  const std::string gradients = "%6, %7, %8, %9, %10, %11, ";
  const Graph graph = graph_of(variables + reads + "%lr = input\n" + out + " = sgd_update_many(" + in + gradients +
                               "%lr)\n" + assigns + "return\n");
  const std::string svg = to_svg(graph);
  EXPECT_EQ(count(svg, "<g class=\"n\""), 4U) << svg;  // variables, learning rate, update, assigns
  EXPECT_NE(svg.find(">6 assigns<"), std::string::npos);
  EXPECT_NE(svg.find(">12 variables<"), std::string::npos);
}

TEST(LayeredDrawing, BoxesNeverOverlapAndEdgesLeadDown) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const int n = 5 + round * 8;
    std::vector<DrawnBox> boxes;
    std::vector<DrawnEdge> edges;
    const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    for (int i = 0; i < n; ++i) {
      boxes.push_back({20.0 + upto(200), 20.0 + upto(40)});
      for (int k = upto(3); k > 0 && i > 0; --k) edges.push_back({upto(i - 1), i});
    }
    const LayeredDrawing drawing = layered_drawing(boxes, edges);
    for (const auto& edge : edges) {
      const auto from = static_cast<std::size_t>(edge.from), to = static_cast<std::size_t>(edge.to);
      EXPECT_LT(drawing.centres[from].y + boxes[from].height / 2, drawing.centres[to].y - boxes[to].height / 2);
    }
    for (std::size_t a = 0; a < boxes.size(); ++a) {
      EXPECT_GE(drawing.centres[a].x - boxes[a].width / 2, -1e-6);
      EXPECT_LE(drawing.centres[a].x + boxes[a].width / 2, drawing.width + 1e-6);
      for (std::size_t b = 0; b < a; ++b) {
        const bool apart =
            std::abs(drawing.centres[a].x - drawing.centres[b].x) >= (boxes[a].width + boxes[b].width) / 2 ||
            std::abs(drawing.centres[a].y - drawing.centres[b].y) >= (boxes[a].height + boxes[b].height) / 2;
        EXPECT_TRUE(apart) << a << " and " << b;
      }
    }
  }
}

TEST(RecordFile, ChecksumIsCastagnolisAndDamageIsFound) {
  const std::string digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xE3069283U);  // the polynomial's published check value
  const std::string file = framed_record("first") + framed_record("");
  EXPECT_EQ(read_records(file), (std::vector<std::string>{"first", ""}));
  for (std::size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_THROW(read_records(damaged), Error) << "byte " << i;
  }
  EXPECT_THROW(read_records(file.substr(0, file.size() - 1)), Error);
}

}  // namespace
}  // namespace starling::graph
