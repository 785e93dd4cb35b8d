#include <gtest/gtest.h>

#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

std::string after_buckets(const std::string& body, PassContext context = {}) {
  context.world = 2;
  Graph made = run_pass("buckets", graph_of(body), context);
  verify(made, "buckets");
  return "\n" + print_short(made);
}

// Gradients of a traced step: computed from the last layer to the first, reduced at the updates, from the first to the
// last.
constexpr const char* kStep = R"(
%x = input {index=0, shape=[8, 4]}
%g3 = sum(%x) {axes=[0]}
%d2 = tanh(%x)
%g2 = sum(%d2) {axes=[0]}
%d1 = tanh(%d2)
%g1 = sum(%d1) {axes=[0]}
%r1 = all_reduce(%g1) {name="g1"}
%u1 = exp(%r1)
%r2 = all_reduce(%g2) {name="g2"}
%u2 = exp(%r2)
%r3 = all_reduce(%g3) {name="g3"}
%u3 = exp(%r3)
return %u1, %u2, %u3
)";

TEST(Buckets, JoinSmallReductionsInTheOrderTheyBecomeReady) {
  EXPECT_EQ(after_buckets(kStep), R"(
%0 = input 0
%1 = sum(%0) {axes=[0]}
%2 = tanh(%0)
%3 = sum(%2) {axes=[0]}
%4 = tanh(%2)
%5 = sum(%4) {axes=[0]}
%6, %7, %8 = all_reduce_many(%1, %3, %5) {name="g3 and 2 more"}
%9 = exp(%8)
%10 = exp(%7)
%11 = exp(%6)
return %9, %10, %11
)");
}

TEST(Buckets, LeaveTheUsersCollectivesAlone) { expect_unchanged_by("buckets", kStep); }

TEST(Buckets, LeaveWhenTheyAreFullRightBehindTheirLastGradient) {
  EXPECT_EQ(after_buckets(kStep, {.program = {.bucket_bytes = 16, .first_bucket_bytes = 32}}), R"(
%0 = input 0
%1 = sum(%0) {axes=[0]}
%2 = tanh(%0)
%3 = sum(%2) {axes=[0]}
%4, %5 = all_reduce_many(%1, %3) {name="g3 and 1 more"}
%6 = tanh(%2)
%7 = sum(%6) {axes=[0]}
%8 = all_reduce(%7) {name="g1"}
%9 = exp(%8)
%10 = exp(%5)
%11 = exp(%4)
return %9, %10, %11
)");
}

TEST(Buckets, LetLargeGradientsGoAlone) {
  const std::string made = after_buckets(R"(
%x = input {index=0, shape=[600000]}
%a = input {index=1, shape=[3]}
%b = input {index=2, shape=[3]}
%ra = all_reduce(%a)
%rx = all_reduce(%x)
%rb = all_reduce(%b)
return %rx, %ra, %rb
)");
  EXPECT_NE(made.find("all_reduce(%0)"), std::string::npos) << made;
  EXPECT_NE(made.find("all_reduce_many(%2, %3)"), std::string::npos) << made;
}

TEST(Buckets, HoldOneDtypeAndOneReduction) {
  const std::string made = after_buckets(R"(
%a = input {index=0, shape=[3]}
%b = input {index=1, shape=[3], dtype=f64}
%c = input {index=2, shape=[5]}
%d = input {index=3, shape=[5], dtype=f64}
%e = input {index=4, shape=[5]}
%ra = all_reduce(%a)
%rb = all_reduce(%b)
%rc = all_reduce(%c)
%rd = all_reduce(%d)
%re = all_reduce(%e) {reduce="max"}
return %ra, %rb, %rc, %rd, %re
)");
  EXPECT_NE(made.find("all_reduce_many(%0, %2)"), std::string::npos) << made;
  EXPECT_NE(made.find("all_reduce_many(%1, %5)"), std::string::npos) << made;
  EXPECT_NE(made.find("all_reduce(%8) {reduce=\"max\"}"), std::string::npos) << made;
}

// Batch norm statistics: the rest of the step waits for them, and the second needs the first.
TEST(Buckets, KeepNothingBackThatAnotherCollectiveWaitsFor) {
  const std::string made = after_buckets(R"(
%x = input {index=0, shape=[8, 4]}
%m = sum(%x) {axes=[0]}
%rm = all_reduce(%m)
%y = sub(%x, %rm)
%v = sum(%y) {axes=[0]}
%rv = all_reduce(%v)
%z = sub(%y, %rv)
%g = sum(%z)
%rg = all_reduce(%g)
return %rg
)");
  EXPECT_EQ(made.find("all_reduce_many"), std::string::npos) << made;
}

TEST(Buckets, TakeAlongANeighbourThatDoesNotNeedTheFirst) {
  const std::string made = after_buckets(R"(
%x = input {index=0, shape=[8, 4]}
%w = input {index=1, shape=[8, 4]}
%m = sum(%x)
%n = sum(%w)
%rn = all_reduce(%n)
%rm = all_reduce(%m)
%y = mul(%x, %rm)
%z = mul(%y, %rn)
%g = sum(%z) {axes=[0]}
%rg = all_reduce(%g)
return %rg
)");
  EXPECT_NE(made.find("all_reduce_many(%2, %3)"), std::string::npos) << made;
  EXPECT_NE(made.find("= all_reduce("), std::string::npos) << made;
}

TEST(Buckets, JoinTheSumsOfLogicalShards) {
  const std::string made = after_buckets(R"(
%a = input {index=0, shape=[3]}
%b = input {index=1, shape=[3]}
%c = input {index=2, shape=[2, 2]}
%d = input {index=3, shape=[2, 2]}
%r = ordered_sum(%a, %b) {shards=4}
%s = ordered_sum(%c, %d) {shards=4}
return %r, %s
)");
  EXPECT_NE(made.find("ordered_sum(%0, %1, %2, %3) {shards=4, name=\" and 1 more\", tensors=2}"), std::string::npos)
      << made;
}

// Reads of a variable before its update stay before it when the update moves.
TEST(Buckets, KeepReadersOfAVariableBeforeItsUpdate) {
  const std::string made = after_buckets(R"(
variable 0 "w" f32[4]
%x = input {index=0, shape=[4]}
%w = variable {index=0, shape=[4]}
%a = mul(%w, %x)
%ra = all_reduce(%a)
assign(%ra) {index=0}
%v = variable {index=0, shape=[4]}
%b = mul(%v, %x)
%rb = all_reduce(%b)
return %rb
)");
  EXPECT_EQ(made.find("all_reduce_many"), std::string::npos) << made;
  EXPECT_LT(made.find("assign"), made.rfind("variable 0")) << made;
}

// State in pieces: gradients of two weights are scattered, updates are made on pieces and gathered. The gathers wait
// for the scatters, which nothing else does before both gradients are ready.
constexpr const char* kPieces = R"(
variable 0 "w" f32[4, 3]
variable 1 "v" f32[6, 2]
%x = input {index=0, shape=[4, 3]}
%y = input {index=1, shape=[6, 2]}
%gw = tanh(%x)
%gv = tanh(%y)
%rw = reduce_scatter(%gw) {rows=4, rank=1, ranks=2, name="w"}
%hw = mul(%rw, %rw)
%uw = cumsum(%hw)
%aw = all_gather(%uw) {rows=4, rank=1, ranks=2, name="w"}
assign(%aw) {index=0}
%rv = reduce_scatter(%gv) {rows=6, rank=1, ranks=2, name="v"}
%hv = mul(%rv, %rv)
%uv = cumsum(%hv)
%av = all_gather(%uv) {rows=6, rank=1, ranks=2, name="v"}
assign(%av) {index=1}
return
)";

TEST(Buckets, JoinScattersAndTheGathersOfWhatIsMadeOfThem) {
  EXPECT_EQ(after_buckets(kPieces), R"(
%0 = input 0
%1 = input 1
%2 = tanh(%0)
%3 = tanh(%1)
%4, %5 = reduce_scatter_many(%2, %3) {rank=1, ranks=2, name="w and 1 more"}
%6 = mul(%4, %4)
%7 = cumsum(%6)
%8 = mul(%5, %5)
%9 = cumsum(%8)
%10, %11 = all_gather_many(%7, %9) {rank=1, ranks=2, name="w and 1 more"}
assign 0(%10)
assign 1(%11)
return
)");
}

// Two ranks split 4 and 5 rows in different ways: the same bucket cannot tell which.
TEST(Buckets, HoldGathersOfRowsThatAreSplitAlike) {
  const std::string body = R"(
%x = input {index=0, shape=[2, 3]}
%y = input {index=1, shape=[3, 3]}
%z = input {index=2, shape=[4, 3]}
%ax = all_gather(%x) {rows=4, rank=1, ranks=2}
%ay = all_gather(%y) {rows=5, rank=1, ranks=2}
%az = all_gather(%z) {rows=8, rank=1, ranks=2}
return %ax, %ay, %az
)";
  const std::string made = after_buckets(body);
  EXPECT_NE(made.find("all_gather_many(%0, %3) {rank=1, ranks=2"), std::string::npos) << made;
  EXPECT_NE(made.find("all_gather(%1) {rows=5"), std::string::npos) << made;
}

}  // namespace
}  // namespace starling::graph
