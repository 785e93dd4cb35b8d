#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

TEST(FuseReductions, EndsAChainWithTheSumOfItsRows) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[30, 40]}
    %b = input {index=1, shape=[40]}
    %s = add(%x, %b)
    %r = relu(%s)
    %y = sum(%r) {axes=[1]}
    return %y)"),
            R"~(
%0 = input 0
%1 = input 1
%2 = fused(%0, %1) {program="t0=add(a0,a1); t1=relu(t0); t2=sum(t1,1); o0=squeeze(t2,1)"}
return %2
)~");
}

TEST(FuseReductions, GivesAValueAndItsSumOverTheBatch) {
  // One gradient read by a bias and by the layer before it.
  EXPECT_EQ(shown_after("fuse", R"(
    %dy = input {shape=[300, 40]}
    %x = input {index=1, shape=[300, 40]}
    %dx = gelu_backward(%dy, %x)
    %db = sum(%dx) {axes=[0]}
    return %dx, %db)"),
            R"~(
%0 = input 0
%1 = input 1
%2, %3 = fused(%0, %1) {program="t0=gelu_backward(a0,a1); t1=sum(t0,0); o0=t0; o1=squeeze(t1,0)"}
return %2, %3
)~");
}

TEST(FuseReductions, AddsUpChannelsOfImages) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[8, 4, 5, 5]}
    %c = input {index=1, shape=[4, 1, 1]}
    %y = mul(%x, %c)
    %s = sum(%y) {axes=[0, 2, 3]}
    return %y, %s)"),
            R"~(
%0 = input 0
%1 = input 1
%2, %3 = fused(%0, %1) {program="t0=mul(a0,a1); t1=sum(t0,0,2,3); o0=t0; o1=squeeze(t1,0,2,3)"}
return %2, %3
)~");
}

TEST(FuseReductions, ReadsRowReductionsInTheSamePass) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[30, 40]}
    %m = max(%x) {axes=[1], keepdim=true}
    %d = sub(%x, %m)
    %e = exp(%d)
    %s = sum(%e) {axes=[-1], keepdim=true}
    %y = div(%e, %s)
    return %y)"),
            R"~(
%0 = input 0
%1 = fused(%0) {program="t0=max(a0,1); t1=sub(a0,t0); t2=exp(t1); t3=sum(t2,1); t4=div(t2,t3); o0=t4"}
return %1
)~");
}

TEST(FuseReductions, FollowsReshapesAndBroadcastsOfReducedValues) {
  // Form of the gradient of a mean along rows.
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[30, 40]}
    %e = exp(%x)
    %s = sum(%e) {axes=[1]}
    %r = reshape(%s) {shape=[30, 1]}
    %w = broadcast_to(%r) {shape=[30, 40]}
    %y = mul(%e, %w)
    %n = neg(%w)
    return %y, %n)"),
            R"~(
%0 = input 0
%1, %2 = fused(%0) {program="t0=exp(a0); t1=sum(t0,1); t2=broadcast_to(t1); t3=mul(t0,t1); t4=neg(t2); o0=t3; o1=t4"}
return %1, %2
)~");
}

TEST(FuseReductions, ComputesOnReducedValuesOfAnyForm) {
  // [30] with rows of [30, 40]: the operand is read as a column.
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[30, 40]}
    %c = input {index=1, shape=[30]}
    %q = mul(%x, %x)
    %s = sum(%q) {axes=[1]}
    %t = add(%s, %c)
    %y = sqrt(%t)
    return %y)"),
            R"~(
%0 = input 0
%1 = input 1
%2 = reshape(%1) {shape=[30, 1]}
%3 = fused(%0, %2) {program="t0=mul(a0,a0); t1=sum(t0,1); t2=add(t1,a1); t3=sqrt(t2); o0=squeeze(t3,1)"}
return %3
)~");
}

TEST(FuseReductions, GivesAReducedValueInBothItsForms) {
  EXPECT_EQ(shown_after("fuse", R"(
    %x = input {shape=[30, 40]}
    %e = exp(%x)
    %s = sum(%e) {axes=[1]}
    %r = reshape(%s) {shape=[30, 1]}
    %y = div(%e, %r)
    return %y, %s, %r)"),
            R"~(
%0 = input 0
%1, %2 = fused(%0) {program="t0=exp(a0); t1=sum(t0,1); t2=div(t0,t1); o0=squeeze(t1,1); o1=t2"}
%3 = reshape(%1) {shape=[30, 1]}
return %2, %1, %3
)~");
}

// As in the norm of all gradients: both sums are over all axes, but of different tensors.
TEST(FuseReductions, KeepsReductionsOfDifferentShapesApart) {
  const std::string shown = shown_after("fuse", R"(
    %x = input {shape=[30, 40]}
    %y = input {index=1, shape=[20, 30]}
    %xx = square(%x)
    %yy = square(%y)
    %a = sum(%xx)
    %b = sum(%yy)
    %s = add(%a, %b)
    %n = sqrt(%s)
    return %n)");
  EXPECT_NE(shown.find("square(a0)"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("t3=sum"), std::string::npos) << shown;
}

TEST(FuseReductions, LeavesReductionsThatAreNotWithinARow) {
  // A reduction over the first axis, or over a long row, is known only when all is read.
  expect_unchanged_by("fuse", R"(
    %x = input {shape=[300, 40]}
    %m = mean(%x) {axes=[0], keepdim=true}
    %y = sub(%x, %m)
    return %y)");
  expect_unchanged_by("fuse", R"(
    %x = input {shape=[2, 100000]}
    %m = mean(%x) {axes=[1], keepdim=true}
    %y = sub(%x, %m)
    return %y)");
}

TEST(FuseReductions, LeavesReductionsWithAsManyResultsAsElements) {
  expect_unchanged_by("fuse", R"(
    %x = input {shape=[2, 100000]}
    %e = exp(%x)
    %y = sum(%e) {axes=[0]}
    return %y)");
}

TEST(FuseReductions, LeavesReductionsOfIntegersAndOnOtherDevicesAlone) {
  expect_unchanged_by("fuse",
                      "%x = input {shape=[40, 50], dtype=i64}\n%y = mul(%x, %x)\n%z = sum(%y) {axes=[1]}\nreturn %z");
  expect_unchanged_by(
      "fuse",
      "%x = input {shape=[40, 50]}\n%y = exp(%x) device=cuda:0\n%z = sum(%y) {axes=[1]} device=cuda:0\nreturn %z");
}

TEST(FuseReductions, LeavesOperandsThatBreakARowOutside) {
  // Rows of [4, 5] with one operand value per row: not contiguous along the row.
  const Graph graph = after("fuse", graph_of(R"(
    %x = input {shape=[30, 4, 5]}
    %c = input {index=1, shape=[4, 1]}
    %a = mul(%x, %c)
    %m = mean(%a) {axes=[1, 2], keepdim=true}
    %y = sub(%a, %m)
    return %y)"));
  EXPECT_EQ(graph.size(), 4);  // the product stays by itself, the rest is one
}

}  // namespace
}  // namespace starling::graph
