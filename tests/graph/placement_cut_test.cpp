#include "graph/placement_testing.h"
#include "starling/graph/placement/simulator.h"
#include "starling/ops/def/attrs/transfer.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

std::string shown_parts(const std::string& body, const PlacementOptions& options) {
  const Graph graph = graph_of(body);
  std::string text = "\n";
  for (const auto& part : cut(graph, placed_on(graph, options), options, 0)) text += print_short(part.graph) + "--\n";
  return text;
}

TEST(PlacementCut, HasOneSendForAllReadersAndOneReleaseOnceTheyAreKnownToHaveIt) {
  auto options = cpus(2);
  options.constraints = {{"op:exp", logical_cpu(0)}, {"there", logical_cpu(1)}, {"op:sub", logical_cpu(0)}};
  EXPECT_EQ(shown_parts(R"(%0 = input {index=0, shape=[4]} : f32[4]
%1 = exp(%0) : f32[4]
%2 = tanh(%1) @"there" : f32[4]
%3 = relu(%1) @"there" : f32[4]
%4 = add(%2, %3) @"there" : f32[4]
%5 = sub(%4, %0) : f32[4]
return %5
)",
                        options),
            R"(
%0 = input 0
%1 = exp(%0)
send(%1) {key="%1>cpu:1", to="cpu:1"}
%2 = recv {key="%4>cpu:0", from="cpu:1", shape=[4]}
release(%1)
%3 = sub(%2, %0)
return %3
--
%0 = recv {key="%1>cpu:1", from="cpu:0", shape=[4]} device=cpu:1
%1 = tanh(%0) device=cpu:1
%2 = relu(%0) device=cpu:1
%3 = add(%1, %2) device=cpu:1
send(%3) {key="%4>cpu:0", to="cpu:0"} device=cpu:1
release(%3) device=cpu:1
return
--
)");
}

TEST(PlacementCut, ControlEdgesAcrossDevicesBecomeTransfersOfNothing) {
  auto options = cpus(2);
  options.constraints = {{"op:exp", logical_cpu(0)}, {"op:tanh", logical_cpu(1)}};
  EXPECT_EQ(shown_parts(R"(%0 = input {index=0, shape=[4]} : f32[4]
%1 = exp(%0) : f32[4]
%2 = tanh(%0) after=(%1) : f32[4]
return %1, %2
)",
                        options),
            R"(
%0 = input 0
send(%0) {key="%0>cpu:1", to="cpu:1"}
%1 = exp(%0)
send {key="#1>cpu:1", to="cpu:1"} after=(%1)
%2 = recv {key="%2>cpu:0", from="cpu:1", shape=[4]}
release(%0)
return %1, %2
--
%0 = recv {key="%0>cpu:1", from="cpu:0", shape=[4]} device=cpu:1
%1 = recv {key="#1>cpu:1", from="cpu:0", shape=[0], dtype=u8} device=cpu:1
%2 = tanh(%0) after=(%1) device=cpu:1
send(%2) {key="%2>cpu:0", to="cpu:0"} device=cpu:1
release(%2) device=cpu:1
return
--
)");
}

TEST(PlacementCut, ViewsAndConstantsGoAlongWithTheirReaders) {
  auto options = cpus(2);
  options.constraints = {{"op:matmul", logical_cpu(1)}, {"op:exp", logical_cpu(0)}};
  const std::string parts = shown_parts(R"(constant 0 f32[3, 4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
%0 = input {index=0, shape=[3, 4]} : f32[3, 4]
%1 = constant {index=0, shape=[3, 4]} : f32[3, 4]
%2 = transpose(%0) {order=[1, 0]} : f32[4, 3]
%3 = matmul(%2, %1) : f32[4, 4]
%4 = matmul(%2, %0) : f32[4, 4]
%5 = exp(%1) : f32[3, 4]
return %3, %4, %5
)",
                                        options);
  const std::string there = parts.substr(parts.find("--"));
  EXPECT_NE(there.find("= transpose("), std::string::npos) << parts;
  EXPECT_NE(there.find("= constant 0"), std::string::npos) << parts;
  EXPECT_EQ(there.find("recv", there.find("recv") + 1), std::string::npos) << "the argument comes once\n" << parts;
}

// Device 1 has long independent work before it needs a large value of device 0.
TaskGraph late_reader(double own_seconds, double copy_seconds) {
  TaskGraph graph;
  graph.devices = 2;
  graph.caps = {0, 0};
  graph.link = {0, 1e6 / copy_seconds};
  graph.tasks = {{0, 0, {}, {0}, {}, false},   // makes the value on 0
                 {1, 1, {}, {1}, {}, false},   // own work of 1
                 {2, 2, {1}, {2}, {}, false},  // more of it, with much memory
                 {3, 3, {0, 2}, {3}, {}, false},
                 {-1, 4, {3}, {}, {}, false}};
  graph.values = {{0, 0, 1'000'000, 1'000'000, {3}, 0},
                  {1, 0, 3'000'000, 3'000'000, {2}, 0},
                  {2, 0, 8, 8, {3}, 0},
                  {3, 0, 0, 0, {4}, 0}};
  graph.seconds = {{1e-3, 1e-3}, {own_seconds, own_seconds}, {own_seconds, own_seconds}, {1e-3, 1e-3}, {0, 0}};
  for (int t = 0; t < 5; ++t) graph.groups.push_back({{t}, -1, "", 0, {true, true}});
  return graph;
}

int position_of_receipt(const Simulated& simulated) {
  const auto& jobs = simulated.jobs[1];
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].receives) return static_cast<int>(i);
  }
  return -1;
}

TEST(PlacementReceipts, MoveToTheirUseWhereThatSavesMemoryAtNoCost) {
  const TaskGraph graph = late_reader(1e-3, 1.5e-3);
  const Simulator simulator(graph);
  const std::vector<int> devices{0, 1, 1, 1, 1};
  const Simulated early = simulator.delay_receipts(simulator.schedule(devices), devices, -1);
  const Simulated late = simulator.delay_receipts(simulator.schedule(devices), devices, 0.02);
  EXPECT_EQ(position_of_receipt(late), 2) << "just before the task that reads it";
  EXPECT_LT(position_of_receipt(early), 2) << "it could come earlier";
  EXPECT_LT(late.peak[1], early.peak[1]);
  EXPECT_LE(late.makespan, 1.02 * early.makespan);
}

// The value arrives while device 1 is idle: delaying its copy would lengthen the program.
TEST(PlacementReceipts, StayEarlyWhereWaitingWouldCostTime) {
  TaskGraph graph = late_reader(1e-3, 5e-3);
  // Device 1's work now waits for a slow task on 0 that runs after the value is made.
  graph.tasks.insert(graph.tasks.begin() + 1, {4, 5, {}, {4}, {0}, false});
  graph.values.push_back({1, 0, 0, 0, {2}, 0});
  for (auto& value : graph.values) {
    if (&value == &graph.values.back() || &value == &graph.values[0]) continue;
    ++value.task;
  }
  for (auto& value : graph.values) {
    if (&value == &graph.values.back()) continue;
    for (auto& user : value.users) ++user;
  }
  graph.tasks[2].in = {4};
  graph.seconds.insert(graph.seconds.begin() + 1, {8e-3, 8e-3});
  graph.groups.push_back({{1}, -1, "", 0, {true, true}});
  for (std::size_t g = 1; g < 5; ++g) graph.groups[g].tasks = {static_cast<int>(g) + 1};
  const Simulator simulator(graph);
  const std::vector<int> devices{0, 1, 1, 1, 1, 0};
  const Simulated chosen = simulator.delay_receipts(simulator.schedule(devices), devices, 0.02);
  const auto& first = chosen.jobs[1][0];
  EXPECT_TRUE(first.receives);
  EXPECT_EQ(first.id, 0) << "the large value comes first, while there is time";
  EXPECT_NEAR(chosen.makespan, 12e-3, 1e-3);
}

TEST(PlacementSimulator, CountsOneReceiptForAllReadersAndKeepsSentValuesUntilTaken) {
  TaskGraph graph = late_reader(1e-3, 2e-3);
  graph.values[0].users = {2, 3};
  graph.tasks[2].in = {1, 0};
  const Simulator simulator(graph);
  const std::vector<int> devices{0, 1, 1, 1, 0};
  const Simulated simulated = simulator.schedule(devices);
  int receipts = 0;
  for (const auto& job : simulated.jobs[1]) receipts += job.receives;
  EXPECT_EQ(receipts, 1);
  const auto released = simulator.release_positions(simulated, devices);
  EXPECT_EQ(released[0], 1) << "what came back was sent after the value had been taken";
  EXPECT_EQ(released[3], static_cast<int>(simulated.jobs[1].size())) << "nothing comes back: at the end";
  EXPECT_EQ(released[1], -1) << "never sent";
}

TEST(PlacementCut, DelaysAreNotFolded) {
  const char* const text = R"(
    constant 0 f32[3] {1, 2, 3}
    %a = constant {shape=[3]}
    %b = delay(%a) {milliseconds=1}
    return %b)";
  expect_unchanged_by("fold", text);
}

TEST(PlacementExplain, ListsNodesWithDeviceTimesAndBytes) {
  auto options = cpus(2);
  options.constraints = {{"op:tanh", logical_cpu(1)}};
  options.devices[1].memory_cap = 1 << 20;
  const Graph graph = graph_of(R"(%0 = input {index=0, shape=[4]} : f32[4]
%1 = delay(%0) {milliseconds=3} : f32[4]
%2 = tanh(%1) @"head" : f32[4]
return %2
)");
  const std::string text = explain(graph, placed_on(graph, options), options);
  EXPECT_NE(text.find("%2 tanh @head"), std::string::npos) << text;
  EXPECT_NE(text.find("recv %1 delay"), std::string::npos) << text;
  EXPECT_NE(text.find("predicted 3.0"), std::string::npos) << text;
  EXPECT_NE(text.find("2 transfers"), std::string::npos) << text;
  EXPECT_NE(text.find("allowed 1048576"), std::string::npos) << text;
}

}  // namespace
}  // namespace starling::graph
