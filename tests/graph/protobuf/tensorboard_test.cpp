#include "starling/graph/export/tensorboard.h"

#include <map>

#include "graph/passes_testing.h"
#include "starling/graph/export/record_file.h"
#include "tensorboard.pb.h"

namespace starling::graph {
namespace {

using tensorboard::Event;
using tensorboard::GraphDef;
using tensorboard::NodeDef;

std::map<std::string, NodeDef> nodes_of(const Graph& graph) {
  const auto records = read_records(to_tensorboard(graph));
  EXPECT_EQ(records.size(), 2U);
  Event version, drawn;
  EXPECT_TRUE(version.ParseFromString(records.at(0)));
  EXPECT_EQ(version.file_version(), "brain.Event:2");
  EXPECT_TRUE(drawn.ParseFromString(records.at(1)));
  EXPECT_GT(drawn.wall_time(), 1.5e9);
  GraphDef def;
  EXPECT_TRUE(def.ParseFromString(drawn.graph_def()));
  std::map<std::string, NodeDef> nodes;
  for (const auto& node : def.node()) EXPECT_TRUE(nodes.emplace(node.name(), node).second) << node.name();
  return nodes;
}

TEST(TensorBoard, NodesHaveNamesInputsShapesDevicesAndAttributes) {
  const auto nodes = nodes_of(graph_of(R"(variable 0 "net.fc.weight" f32[5, 4]
%0 = input {shape=[3, 4]}
%1 = variable {shape=[5, 4]}
%2 = linear(%0, %1) {activation="relu"} @"net/fc" device=cuda:1
%3, %4 = sort(%2) {axis=1} @"net/top"
%5 = gather(%2, %4) {axis=1} after=(%2)
%6 = tanh_backward(%2, %2) origin=%2
assign(%1)
return %5, %3
)"));
  ASSERT_EQ(nodes.size(), 9U);
  const NodeDef& linear = nodes.at("net/fc/linear");
  EXPECT_EQ(linear.op(), "linear");
  ASSERT_EQ(linear.input_size(), 2);
  EXPECT_EQ(linear.input(0), "input_0");
  EXPECT_EQ(linear.input(1), "net/fc/weight");
  EXPECT_EQ(linear.device(), "/device:GPU:1");
  EXPECT_EQ(linear.attr().at("activation").s(), "relu");
  EXPECT_EQ(linear.attr().at("T").type(), tensorboard::DT_FLOAT);
  const auto& shapes = linear.attr().at("_output_shapes").list();
  ASSERT_EQ(shapes.shape_size(), 1);
  ASSERT_EQ(shapes.shape(0).dim_size(), 2);
  EXPECT_EQ(shapes.shape(0).dim(0).size(), 3);
  EXPECT_EQ(shapes.shape(0).dim(1).size(), 5);
  EXPECT_EQ(nodes.at("net/top/sort").attr().at("_output_shapes").list().shape_size(), 2);
  EXPECT_EQ(nodes.at("net/top/sort").device(), "/device:CPU:0");
  const NodeDef& gather = nodes.at("gather");
  EXPECT_EQ(gather.input(1), "net/top/sort:1");
  EXPECT_EQ(gather.input(2), "^net/fc/linear");
  EXPECT_EQ(gather.attr().at("axis").i(), 1);
  EXPECT_EQ(nodes.at("gradients/net/fc/tanh_backward").attr().at("_origin").s(), "net/fc/linear");
  EXPECT_EQ(nodes.at("net/fc/weight").attr().at("_variable").s(), "net.fc.weight");
  EXPECT_EQ(nodes.at("output_1").input(0), "net/top/sort");
}

TEST(TensorBoard, EveryInputIsANodeOfTheFile) {
  const auto nodes =
      nodes_of(graph_of("%0 = input {shape=[2]}\n%1 = neg(%0) @\"a b/c:d\"\n%2 = exp(%1) @\"a b/c:d\"\n"
                        "return %2, %2\n"));
  for (const auto& [name, node] : nodes) {
    for (const auto& input : node.input()) {
      const auto path = input.substr(input[0] == '^' ? 1 : 0);
      EXPECT_TRUE(nodes.contains(path.substr(0, path.find(':')))) << name << " reads " << input;
    }
    EXPECT_EQ(name.find_first_of(" :"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace starling::graph
