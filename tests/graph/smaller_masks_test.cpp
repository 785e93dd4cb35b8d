#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

const std::string kForward = R"(
    %x = input {shape=[2, 3, 8, 8]}
    %dy = input {index=1, shape=[2, 3, 4, 4]}
    %y = relu(%x)
    %p, %i = max_pool2d(%y) {stride=[2]}
    %dp = max_pool_backward(%dy, %i) {shape=[2, 3, 8, 8]}
)";

TEST(SmallerMasks, TheMaskIsTakenFromWhatWasPooled) {
  EXPECT_EQ(shown_after("smaller_masks", kForward + "%dx = relu_backward(%dp, %y)\nreturn %p, %dx"), R"(
%0 = input 0
%1 = input 1
%2 = relu(%0)
%3, %4 = max_pool2d(%2) {stride=[2]}
%5 = relu_backward(%1, %3)
%6 = max_pool_backward(%5, %4) {shape=[2, 3, 8, 8]}
return %3, %6
)");
}

TEST(SmallerMasks, MasksOfOtherValuesStay) {
  expect_unchanged_by("smaller_masks", kForward + "%dx = relu_backward(%dp, %x)\nreturn %p, %dx");
  expect_unchanged_by("smaller_masks", kForward + "%dx = tanh_backward(%dp, %y)\nreturn %p, %dx");
}

TEST(SmallerMasks, GradientsThatOthersReadStay) {
  expect_unchanged_by("smaller_masks", kForward + "%dx = relu_backward(%dp, %y)\nreturn %dp, %dx");
}

}  // namespace
}  // namespace starling::graph
