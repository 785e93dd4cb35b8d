// Groups of ranks in graphs: text, dependencies, order, lanes, buckets, partition.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/passes_testing.h"
#include "starling/graph/dependencies.h"

namespace starling::graph {
namespace {

using Nodes = std::vector<NodeId>;

constexpr const char* kTwoGroups = R"(
%x = input {index=0, shape=[4]}
%a = all_reduce(%x) {group="data"}
%b = all_reduce(%x) {group="model"}
%c = all_reduce(%x) {group="data"}
%d = all_reduce(%x)
%e = all_reduce(%x) {group="model"}
return %a, %b, %c, %d, %e
)";

TEST(CommGroups, AreTextOnlyWhereAnOpNamesOne) {
  EXPECT_EQ("\n" + print_short(graph_of(kTwoGroups)), R"(
%0 = input 0
%1 = all_reduce(%0) {group="data"}
%2 = all_reduce(%0) {group="model"}
%3 = all_reduce(%0) {group="data"}
%4 = all_reduce(%0)
%5 = all_reduce(%0) {group="model"}
return %1, %2, %3, %4, %5
)");
}

TEST(CommGroups, AreOrderedWithinThemselvesOnly) {
  const auto before = dependencies(graph_of(kTwoGroups));
  EXPECT_EQ(before, (std::vector<Nodes>{{}, {0}, {0}, {0, 1}, {0}, {0, 2}}));
  const auto free = dependencies(graph_of(kTwoGroups), CommOrder::free);
  EXPECT_EQ(free, (std::vector<Nodes>{{}, {0}, {0}, {0}, {0}, {0}}));
}

TEST(CommGroups, OrderMessagesWithinThemselvesOnly) {
  const Graph graph = graph_of(R"(
%x = input {index=0, shape=[]}
%a = send_to(%x) {to=1, group="data"}
%b = send_to(%x) {to=1, group="model"}
%c = recv_from(%x) {shape=[3], group="data"}
return %a, %b, %c
)");
  for (const CommOrder order : {CommOrder::kept, CommOrder::free})
    EXPECT_EQ(dependencies(graph, order), (std::vector<Nodes>{{}, {0}, {0}, {0, 1}}));
}

TEST(CommGroups, HaveALaneEach) {
  EXPECT_EQ(shown_after("schedule", kTwoGroups), R"(
%0 = input 0
%1 = all_reduce(%0) {group="data"} lane=comm
%2 = all_reduce(%0) {group="model"} lane=comm1
%3 = all_reduce(%0) {group="data"} lane=comm
%4 = all_reduce(%0) lane=comm2
%5 = all_reduce(%0) {group="model"} lane=comm1
return %1, %2, %3, %4, %5
)");
}

TEST(CommGroups, LanesAreReadAsTheyArePrinted) {
  for (int number = 0; number < kMostCommLanes; ++number) {
    const Graph graph = graph_of("%x = input\n%y = all_reduce(%x) lane=" + name(comm_lane(number)) + "\nreturn %y");
    EXPECT_EQ(graph.node(1).lane, comm_lane(number));
    EXPECT_TRUE(is_comm(graph.node(1).lane));
  }
  for (int number = 0; number < kMostBranches; ++number) EXPECT_FALSE(is_comm(compute_lane(number)));
}

TEST(CommGroups, OfWhichThereAreTooManyAreRefused) {
  std::string text = "%x = input\n";
  for (int i = 0; i <= kMostCommLanes; ++i)
    text += "%r" + std::to_string(i) + " = all_reduce(%x) {group=\"g" + std::to_string(i) + "\"}\n";
  EXPECT_THROW(run_pass("schedule", graph_of(text + "return %x")), Error);
}

// The update waits for "data", the product for "model": on the compute lane the update must not stand before it.
TEST(CommGroups, AGroupThatIsLateHoldsUpNoOther) {
  EXPECT_EQ(shown_after("schedule", R"(
variable 0 "w" f32[4]
%x = input {index=0, shape=[4]}
%w = variable {index=0, shape=[4]}
%a = all_reduce(%x) {group="data"}
%u = sub(%w, %a)
assign(%u) {index=0}
%b = all_reduce(%x) {group="model"}
%t = tanh(%b)
%c = all_reduce(%t) {group="model"}
return %c
)"),
            R"(
%0 = input 0
%1 = all_reduce(%0) {group="data"} lane=comm
%2 = all_reduce(%0) {group="model"} lane=comm1
%3 = tanh(%2)
%4 = all_reduce(%3) {group="model"} lane=comm1
%5 = variable 0
%6 = sub(%5, %1)
assign 0(%6)
return %4
)");
}

// Groups of the communication of a scheduled graph in their order; all of it is to lie in the compute lane.
std::vector<std::string> groups_in_the_compute_lane(const Graph& graph) {
  std::vector<std::string> groups;
  for (const Node& node : graph.nodes()) {
    EXPECT_EQ(node.lane, Lane::compute);
    if (node.op->comm) groups.push_back(comm_group(node).str());
  }
  return groups;
}

constexpr const char* kDataNeedsMore = R"(
%x = input {index=0, shape=[4]}
%t = tanh(%x)
%a = all_reduce(%t) {group="data"}
%b = all_reduce(%x) {group="model"}
return %a, %b
)";

TEST(CommGroups, OnOneLaneAllKeepTheOrderOfTheGraph) {
  const Graph graph = run_pass("schedule", graph_of(kDataNeedsMore), {.program = {.overlap = false}});
  EXPECT_EQ(groups_in_the_compute_lane(graph), (std::vector<std::string>{"data", "model"}));
}

// The host runs the exchanges of a GPU's program one after the other.
TEST(CommGroups, OfAGpuAreOnOneLaneWithOverlap) {
  Graph graph = graph_of(kDataNeedsMore);
  for (NodeId id = 0; id < graph.size(); ++id) graph.node(id).device = {DeviceKind::cuda, 0};
  EXPECT_EQ(groups_in_the_compute_lane(run_pass("schedule", graph)), (std::vector<std::string>{"data", "model"}));
}

TEST(CommGroups, HaveBucketsOfTheirOwn) {
  Graph made = run_pass("buckets", graph_of(R"(
%x = input {index=0, shape=[4]}
%a = all_reduce(%x) {group="data"}
%b = all_reduce(%x) {group="model"}
%c = all_reduce(%x) {group="data"}
%d = all_reduce(%x) {group="model"}
return %a, %b, %c, %d
)"),
                        {.world = 2});
  verify(made, "buckets");
  EXPECT_EQ("\n" + print_short(made), R"(
%0 = input 0
%1, %2 = all_reduce_many(%0, %0) {name=" and 1 more", group="data"}
%3, %4 = all_reduce_many(%0, %0) {name=" and 1 more", group="model"}
return %1, %3, %2, %4
)");
}

// A kernel that makes values of two rounds would let what needs the first wait for the second.
TEST(CommGroups, AreNotTiedTogetherByFusion) {
  const auto kernels = [](const char* group) {
    const Graph fused = run_pass("fuse", graph_of(fmt::format(R"(
%x = input {{index=0, shape=[64]}}
%t = tanh(%x)
%a = all_reduce(%x) {{group="data"}}
%m = all_reduce(%x) {{group="{}"}}
%u = mul(%t, %m)
return %u, %t, %a
)",
                                                              group)));
    return std::count_if(fused.nodes().begin(), fused.nodes().end(),
                         [](const Node& node) { return !node.op->comm && !is_source(node); });
  };
  EXPECT_EQ(kernels("data"), 1);
  EXPECT_EQ(kernels("model"), 2);
}

TEST(CommGroups, ArePutInByThePartition) {
  const Graph local = run_pass("partition", graph_of(R"(
%x = input {index=0, shape=[8, 4]}
%s = sum(%x)
return %s
)"),
                               {.world = 2, .rank = 1, .group = "data", .inputs = {Layout::split(0)}});
  EXPECT_EQ(comm_groups(local), std::vector<Symbol>{Symbol("data")});
}

// Rows are split along "data": a reduction along "model" takes them as they are, one of another kind needs them whole.
TEST(CommGroups, OfOtherAxesTakeSplitRowsWhereTheyCan) {
  const PassContext context{.world = 2, .rank = 1, .group = "data", .inputs = {Layout::split(0)}};
  EXPECT_EQ("\n" + print_short(run_pass("partition", graph_of(R"(
%x = input {index=0, shape=[8, 4]}
%a = all_reduce(%x) {group="model"}
%g = all_gather(%a) {rows=16, ranks=2, group="model"}
return %g
)"),
                                        context)),
            R"(
%0 = input 0
%1 = all_reduce(%0) {group="model"}
%2 = all_gather(%1) {rows=8, rank=1, ranks=2, name="all_reduce%1", group="data"}
%3 = all_gather(%2) {rows=16, ranks=2, group="model"}
return %3
)");
  EXPECT_THROW(run_pass("partition", graph_of("%x = input\n%y = all_reduce(%x) {group=\"data\"}\nreturn %y"), context),
               Error);
}

}  // namespace
}  // namespace starling::graph
