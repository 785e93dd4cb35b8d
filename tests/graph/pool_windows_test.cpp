#include "graph/passes_testing.h"

namespace starling::graph {
namespace {

std::string net(const std::string& device) {
  std::string body = R"(
    %x = input {shape=[2, 3, 9, 9]}
    %dy = input {index=1, shape=[2, 3, 4, 4]}
    %y, %i = max_pool2d(%x) {kernel=[3, 3], stride=[2, 2]}!
    %dx = max_pool_backward(%dy, %i) {shape=[2, 3, 9, 9]}!
    return %y, %dx)";
  for (std::size_t at; (at = body.find('!')) != std::string::npos;) body.replace(at, 1, device);
  return body;
}

TEST(PoolWindows, GradientsOnAGpuLearnTheWindowsThatMadeTheirPositions) {
  const std::string shown = print_short(after("pool_windows", graph_of(net(" device=cuda:0"))));
  EXPECT_NE(shown.find("%4 = max_pool2d_backward(%1, %3) {shape=[2, 3, 9, 9], kernel=[3, 3], stride=[2, 2]}"),
            std::string::npos)
      << shown;
  expect_unchanged_by("pool_windows", net(""));
}

TEST(PoolWindows, LeaveOtherPositionsAndPoolings) {
  expect_unchanged_by("pool_windows", R"(
    %i = input {shape=[2, 3, 4, 4], dtype=i32}
    %dy = input {index=1, shape=[2, 3, 4, 4]}
    %dx = max_pool_backward(%dy, %i) {shape=[2, 3, 9, 9]} device=cuda:0
    return %dx)");
  expect_unchanged_by("pool_windows", R"(
    %x = input {shape=[2, 3, 9, 9]}
    %dy = input {index=1, shape=[2, 3, 4, 4]}
    %y, %i = adaptive_max_pool2d(%x) {size=[4]} device=cuda:0
    %dx = max_pool_backward(%dy, %i) {shape=[2, 3, 9, 9]} device=cuda:0
    return %y, %dx)");
}

}  // namespace
}  // namespace starling::graph
