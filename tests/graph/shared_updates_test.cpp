
#include <gtest/gtest.h>

#include "graph/passes_testing.h"
#include "starling/graph/parser.h"
#include "starling/graph/printer.h"

namespace starling::graph {
namespace {

// A layer of `rows` samples; the weight is 512 by 256.
std::string layer(int rows, const std::string& sgd = "momentum=0.9") {
  const std::string n = std::to_string(rows);
  return R"(starling-graph 1
variable 0 "w" f32[512, 256]
variable 1 "v" f32[512, 256]
variable 2 "lr" f32[]
%x = input {index=0, shape=[)" +
         n + R"(, 256]}
%g = input {index=1, shape=[)" +
         n + R"(, 512]}
%p = matmul(%g, %x) {trans_a=true}
%w = variable {index=0, shape=[512, 256]}
%v = variable {index=1, shape=[512, 256]}
%lr = variable {index=2}
%w2, %v2 = sgd_update(%w, %v, %p, %lr) {)" +
         sgd + R"(}
assign(%w2) {index=0}
assign(%v2) {index=1}
return %x
)";
}

PassContext context(int world, int rank = 0) {
  return {.world = world, .rank = rank, .inputs = {Layout::split(0), Layout::split(0)}};
}

bool shares(const std::string& graph, const PassContext& context) {
  return print_short(run_pass("shared_updates", parse_graph(graph), context)).find("matmul_sgd") != std::string::npos;
}

TEST(SharedUpdates, TakeWeightsThatAreLargerThanTheFactorsOfTheirGradients) {
  EXPECT_TRUE(shares(layer(16), context(2)));
  EXPECT_FALSE(shares(layer(256), context(2))) << "the factors are as large";
  EXPECT_FALSE(shares(layer(16), context(1)));
  EXPECT_FALSE(shares(layer(16, "momentum=0.9, nesterov=true"), context(2)));
  PassContext deterministic = context(2);
  deterministic.shards = 4;
  EXPECT_FALSE(shares(layer(16), deterministic));
}

TEST(SharedUpdates, LeaveGradientsThatOthersRead) {
  std::string read = layer(16);
  read.replace(read.find("return %x"), 9, "return %p");
  EXPECT_FALSE(shares(read, context(2)));
}

TEST(SharedUpdates, GatherTheFactorsAndExchangeTheRowsThatEachRankHasMade) {
  for (const int rank : {0, 1}) {
    const Graph global = run_pass("shared_updates", parse_graph(layer(16)), context(2, rank));
    const std::string local =
        print_short(run_pass("prune", run_pass("partition", global, context(2, rank)), context(2, rank)));
    for (const char* part : {"all_gather", "matmul_sgd_rows", "gather_rows"})
      EXPECT_NE(local.find(part), std::string::npos) << local;
    EXPECT_EQ(local.find("all_reduce"), std::string::npos) << local;
    const std::string begin = "begin=256";
    EXPECT_EQ(local.find(begin) != std::string::npos, rank == 1) << local;
  }
}

// Time is the first dimension, batch the second: after merging, every rank keeps its rows of each time step.
constexpr const char* kSequence = R"(starling-graph 1
%x = input {index=0, shape=[4, 5, 3]}
%g = input {index=1, shape=[4, 5, 2]}
%tx = transpose(%x) {order=[1, 0, 2]}
%tg = transpose(%g) {order=[1, 0, 2]}
%rx = reshape(%tx) {shape=[20, 3]}
%rg = reshape(%tg) {shape=[20, 2]}
%p = matmul(%rg, %rx) {trans_a=true}
%b = sum(%rg) {axes=[0]}
%d = reshape(%rg) {shape=[5, 4, 2]}
return %p, %b, %d
)";

TEST(Partition, SequencesStaySplitWhenTimeAndBatchAreMerged) {
  const std::string local = print_short(run_pass("partition", parse_graph(kSequence), context(2)));
  EXPECT_EQ(local.find("slice_backward"), local.rfind("slice_backward")) << "only the result is laid out\n" << local;
  EXPECT_NE(local.find("reshape(%2) {shape=[10, 3]}"), std::string::npos) << local;
  EXPECT_NE(local.find("{shape=[5, 2, 2]}"), std::string::npos) << local;
}

TEST(Partition, SequencesThatDoNotCutEvenlyAreGathered) {
  const std::string local = print_short(run_pass("partition", parse_graph(kSequence), context(3)));
  EXPECT_EQ(local.find("shape=[10, 3]"), std::string::npos) << local;
  EXPECT_NE(local.find("shape=[20, 3]"), std::string::npos) << local;
}

}  // namespace
}  // namespace starling::graph
