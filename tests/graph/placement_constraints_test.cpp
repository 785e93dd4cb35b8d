#include "graph/placement_testing.h"
#include "starling/graph/placement/patterns.h"

namespace starling::graph {
namespace {

// Two layers with a gradient of the second.
const char* const kLayers = R"(variable 0 "net.fc1.weight" f32[8, 8]
variable 1 "net.fc2.weight" f32[8, 8]
%0 = input {index=0, shape=[4, 8]} : f32[4, 8]
%1 = variable {index=0, shape=[8, 8]} : f32[8, 8]
%2 = matmul(%0, %1) @"net/fc1" : f32[4, 8]
%3 = relu(%2) @"net/fc1" : f32[4, 8]
%4 = variable {index=1, shape=[8, 8]} : f32[8, 8]
%5 = matmul(%3, %4) @"net/fc2" : f32[4, 8]
%6 = matmul(%3, %5) {trans_a=true} origin=%5 : f32[8, 8]
%7 = sub(%4, %6) : f32[8, 8]
assign(%7) {index=1}
return %5
)";

Graph layers() { return graph_of(kLayers); }

TEST(PlacementPatterns, NameScopesAndWhatIsBelowThem) {
  EXPECT_TRUE(matches_pattern("a*c", "abbc"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_FALSE(matches_pattern("a*c", "abbd"));
  EXPECT_TRUE(matches_pattern("*b*b", "abab"));
  const Graph graph = layers();
  const auto named = [&](const char* pattern) {
    std::string found;
    for (const auto& node : graph.nodes()) {
      if (names_node(pattern, graph, node)) found += node.op->name + " ";
    }
    return found;
  };
  EXPECT_EQ(named("net/fc1"), "variable matmul relu ");
  EXPECT_EQ(named("net"), "variable matmul relu variable matmul assign ");
  EXPECT_EQ(named("net/fc"), "");
  EXPECT_EQ(named("*/fc2"), "variable matmul assign ");
  EXPECT_EQ(named("op:matmul"), "matmul matmul matmul ");
  EXPECT_EQ(named("var:*.fc2.weight"), "variable assign ");
}

TEST(PlacementConstraints, AreHonouredAndGradientsFollow) {
  const Graph graph = layers();
  auto options = cpus(3);
  options.constraints = {{"net/fc1", logical_cpu(2)}, {"net/fc2", logical_cpu(1)}};
  const auto placement = placed_on(graph, options);
  for (ValueId v : {1, 2, 3}) EXPECT_EQ(device_of(graph, placement, v), 2) << v;
  for (ValueId v : {4, 5, 6}) EXPECT_EQ(device_of(graph, placement, v), 1) << v;
  EXPECT_EQ(device_of(graph, placement, 0), 0) << "the argument stays where it lies";
  EXPECT_EQ(device_of(graph, placement, 7), 1) << "the update runs where its variable is";
}

TEST(PlacementConstraints, DeviceScopesPinNodes) {
  Graph graph = layers();
  graph.node(graph.value(2).node).device = logical_cpu(1);
  graph.node(graph.value(2).node).pinned = true;
  const auto placement = placed_on(graph, cpus(2));
  EXPECT_EQ(device_of(graph, placement, 2), 1);
  EXPECT_NE(print(graph).find("device=cpu:1 pinned"), std::string::npos);
  EXPECT_EQ(print(parse_graph(print(graph))), print(graph));
}

TEST(PlacementConstraints, ColocatedNodesStayTogether) {
  const Graph graph = layers();
  auto options = cpus(3);
  options.measured = [](const Graph&, NodeId id, const PlacedDevice& device) {
    return id % 3 == device.device.index ? 1e-3 : 9e-3;  // nodes prefer different devices
  };
  const auto apart = placed_on(graph, options);
  EXPECT_NE(device_of(graph, apart, 2), device_of(graph, apart, 3));
  options.colocate = {{"op:matmul", "op:relu"}};
  const auto together = placed_on(graph, options);
  for (ValueId v : {3, 5, 6}) EXPECT_EQ(device_of(graph, together, v), device_of(graph, together, 2)) << v;
  options.constraints = {{"op:relu", logical_cpu(1)}};
  for (ValueId v : {2, 3, 5, 6}) EXPECT_EQ(device_of(graph, placed_on(graph, options), v), 1) << v;
}

TEST(PlacementConstraints, ThatContradictEachOtherNameNodeAndDevices) {
  auto options = cpus(2);
  options.constraints = {{"net/fc1", logical_cpu(0)}, {"op:matmul", logical_cpu(1)}};
  const std::string said = refusal([&] { placed_on(layers(), options); });
  EXPECT_NE(said.find("%2 matmul @net/fc1"), std::string::npos) << said;
  EXPECT_NE(said.find("'net/fc1' on cpu:0"), std::string::npos) << said;
  EXPECT_NE(said.find("'op:matmul' on cpu:1"), std::string::npos) << said;
}

TEST(PlacementConstraints, ColocatedNodesAskedForOnTwoDevicesAreNamed) {
  auto options = cpus(2);
  options.constraints = {{"net/fc1", logical_cpu(0)}, {"net/fc2", logical_cpu(1)}};
  options.colocate = {{"net/fc1", "net/fc2"}};
  const std::string said = refusal([&] { placed_on(layers(), options); });
  EXPECT_NE(said.find("net"), std::string::npos) << said;
  EXPECT_NE(said.find("cpu:0"), std::string::npos) << said;
  EXPECT_NE(said.find("cpu:1"), std::string::npos) << said;
}

TEST(PlacementConstraints, AVariableAndItsAssignCannotBeParted) {
  Graph graph = layers();
  for (NodeId id = 0; id < graph.size(); ++id) {
    const bool assign = is_op(graph.node(id), "assign");
    if (!assign && id != graph.value(4).node) continue;
    graph.node(id).pinned = true;
    graph.node(id).device = logical_cpu(assign ? 1 : 0);
  }
  const std::string said = refusal([&] { placed_on(graph, cpus(2)); });
  EXPECT_NE(said.find("variable 'net.fc2.weight' on cpu:0"), std::string::npos) << said;
  EXPECT_NE(said.find("assign 'net.fc2.weight' on cpu:1"), std::string::npos) << said;
}

TEST(PlacementConstraints, PatternsThatNameNothingAndUnknownDevicesAreRefused) {
  auto options = cpus(2);
  options.constraints = {{"net/fc3", logical_cpu(1)}};
  std::string said = refusal([&] { placed_on(layers(), options); });
  EXPECT_NE(said.find("'net/fc3' (did you mean 'net/fc"), std::string::npos) << said;
  options.constraints = {{"net/fc1", logical_cpu(7)}};
  said = refusal([&] { placed_on(layers(), options); });
  EXPECT_NE(said.find("cpu:0, cpu:1, got cpu:7"), std::string::npos) << said;
}

TEST(PlacementConstraints, AnOpWithoutAKernelOnItsDeviceIsNamed) {
  auto options = cpus(2);
  options.constraints = {{"net/fc1", logical_cpu(1)}};
  PlacementFacts facts;
  facts.supports = [](const Graph& graph, NodeId id, const PlacedDevice& device) {
    return !is_op(graph.node(id), "relu") || device.device.index == 0;
  };
  const std::string said = refusal([&] { placed_on(layers(), options, facts); });
  EXPECT_NE(said.find("%3 relu @net/fc1 on cpu:1"), std::string::npos) << said;
  const Graph graph = layers();
  EXPECT_EQ(device_of(graph, placed_on(graph, cpus(2), facts), 3), 0);
}

TEST(PlacementMemory, VariablesBeyondACapAreNamedWithTheExcess) {
  auto options = cpus(2);
  options.constraints = {{"net", logical_cpu(1)}};
  options.devices[1].memory_cap = 300;  // two variables of 256 bytes
  const std::string said = refusal([&] { placed_on(layers(), options); });
  EXPECT_NE(said.find("at most 300 bytes on cpu:1, got 512"), std::string::npos) << said;
  EXPECT_NE(said.find("'net.fc1.weight' 256, 'net.fc2.weight' 256"), std::string::npos) << said;
  EXPECT_NE(said.find("212 too many"), std::string::npos) << said;
}

TEST(PlacementMemory, MoreVariablesThanAllDevicesHoldAreRefused) {
  auto options = cpus(2);
  for (auto& device : options.devices) device.memory_cap = 200;
  const std::string said = refusal([&] { placed_on(layers(), options); });
  EXPECT_NE(said.find("got 512 bytes: 112 too many"), std::string::npos) << said;
}

TEST(PlacementMemory, ValuesThatFitNowhereAreRefusedWithDeviceAndExcess) {
  auto options = cpus(1);
  options.devices[0].memory_cap = 600;  // the variables, but not the products
  const std::string said = refusal([&] { placed_on(layers(), options); });
  EXPECT_NE(said.find("on cpu:0 (600 allowed"), std::string::npos) << said;
}

TEST(PlacementMemory, CapsSpreadVariablesOverDevices) {
  auto options = cpus(2);
  for (auto& device : options.devices) device.memory_cap = 1100;
  options.devices[0].memory_cap = 500;
  const Graph graph = layers();
  const auto placement = placed_on(graph, options);
  for (std::size_t d = 0; d < 2; ++d) EXPECT_LE(placement.peak_bytes[d], options.devices[d].memory_cap);
  EXPECT_EQ(placement.variable_bytes[0] + placement.variable_bytes[1], 512);
}

}  // namespace
}  // namespace starling::graph
