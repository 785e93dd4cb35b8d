#include "starling/graph/cost/cost.h"

#include <gtest/gtest.h>

#include "graph/passes_testing.h"
#include "starling/graph/control/control.h"
#include "starling/graph/tracer.h"
#include "starling/starling.h"

namespace starling::graph {
namespace {

Cost cost_of_last(const std::string& body) {
  const Graph graph = graph_of(body);
  return cost_of(graph, graph.size() - 1);
}

TEST(Cost, ALinearLayerIsTwoOperationsAWeightAndRowAndOneABias) {
  const Cost cost = cost_of_last(
      "%0 = input {shape=[3, 4]}\n%1 = input {index=1, shape=[5, 4]}\n%2 = input {index=2, shape=[5]}\n"
      "%3 = linear(%0, %1, %2) {activation=\"relu\"}\nreturn %3\n");
  EXPECT_EQ(cost.flops, 3 * 5 * (2 * 4 + 1 + 1));
  EXPECT_EQ(cost.bytes_read, 4 * (3 * 4 + 5 * 4 + 5));
  EXPECT_EQ(cost.bytes_written, 4 * 3 * 5);
}

TEST(Cost, ATransposedProductCountsTheDimensionThatIsSummed) {
  const Cost cost = cost_of_last(
      "%0 = input {shape=[2, 7, 3]}\n%1 = input {index=1, shape=[2, 7, 5]}\n%2 = matmul(%0, %1) {trans_a=true}\n"
      "return %2\n");
  EXPECT_EQ(cost.flops, 2.0 * (2 * 3 * 5) * 7);
}

TEST(Cost, AConvolutionIsASumOverTheTapsOfItsGroupForEveryOutput) {
  const Cost cost = cost_of_last(
      "%0 = input {shape=[2, 4, 10, 10]}\n%1 = input {index=1, shape=[6, 2, 3, 3]}\n%2 = input {index=2, shape=[6]}\n"
      "%3 = conv2d(%0, %1, %2) {stride=[2, 2], padding=[1, 1], groups=2}\nreturn %3\n");
  const double outputs = 2 * 6 * 5 * 5;
  EXPECT_EQ(cost.flops, outputs * (2 * 2 * 3 * 3 + 1));
}

TEST(Cost, GradientsOfAConvolutionTakeAsMuchAsTheConvolution) {
  const double wanted = 2.0 * (2 * 6 * 8 * 8) * (4 * 3 * 3);
  EXPECT_EQ(cost_of_last("%0 = input {shape=[2, 6, 8, 8]}\n%1 = input {index=1, shape=[6, 4, 3, 3]}\n"
                         "%2 = conv2d_backward_input(%0, %1) {shape=[2, 4, 10, 10]}\nreturn %2\n")
                .flops,
            wanted);
  EXPECT_EQ(cost_of_last("%0 = input {shape=[2, 6, 8, 8]}\n%1 = input {index=1, shape=[2, 4, 10, 10]}\n"
                         "%2 = conv2d_backward_weight(%0, %1) {shape=[6, 4, 3, 3]}\nreturn %2\n")
                .flops,
            wanted);
}

TEST(Cost, AnLstmStepIsAProductWithItsRecurrentWeightsAndThirteenOperationsAUnit) {
  const double t = 3, n = 2, h = 5;
  const Cost cost = cost_of_last(
      "%0 = input {shape=[3, 2, 20]}\n%1 = input {index=1, shape=[20, 5]}\n%2 = input {index=2, shape=[2, 5]}\n"
      "%3 = input {index=3, shape=[2, 5]}\n%4, %5, %6 = lstm_layer(%0, %1, %2, %3)\nreturn %4\n");
  EXPECT_EQ(cost.flops, t * n * (2 * 4 * h * h + 13 * h));
}

TEST(Cost, AttentionCountsThePairsOfQueryAndKeyThatAreSeen) {
  const std::string operands =
      "%0 = input {shape=[2, 3, 4, 8]}\n%1 = input {index=1, shape=[2, 3, 6, 8]}\n"
      "%2 = input {index=2, shape=[2, 3, 6, 10]}\n";
  const double each = 2 * 8 + 2 * 10 + 5;
  EXPECT_EQ(cost_of_last(operands + "%3, %4 = scaled_dot_product_attention(%0, %1, %2)\nreturn %3\n").flops,
            2 * 3 * 4 * 6 * each);
  EXPECT_EQ(
      cost_of_last(operands + "%3, %4 = scaled_dot_product_attention(%0, %1, %2) {causal=true}\nreturn %3\n").flops,
      2 * 3 * (1 + 2 + 3 + 4) * each);
}

TEST(Cost, ElementwiseOpsPoolsAndReductionsCountTheirElements) {
  EXPECT_EQ(
      cost_of_last("%0 = input {shape=[3, 1]}\n%1 = input {index=1, shape=[4]}\n%2 = add(%0, %1)\nreturn %2\n").flops,
      12);
  EXPECT_EQ(cost_of_last("%0 = input {shape=[3, 7]}\n%1 = sum(%0) {axes=[1]}\nreturn %1\n").flops, 21);
  EXPECT_EQ(
      cost_of_last("%0 = input {shape=[1, 2, 6, 6]}\n%1 = avg_pool2d(%0) {kernel=[3], stride=[3]}\nreturn %1\n").flops,
      2 * 2 * 2 * 9);
  EXPECT_EQ(cost_of_last("%0 = input {shape=[5, 7]}\n%1 = softmax(%0)\nreturn %1\n").flops, 5 * 35);
}

TEST(Cost, AFusedProgramCountsEveryStepOnce) {
  const Cost cost = cost_of_last(
      "%0 = input {shape=[3, 4]}\n%1 = input {index=1, shape=[3, 4]}\n"
      "%2 = fused(%0, %1) {program=\"t0=add(a0,a1); t1=tanh(t0); t2=mul(t1,t0); o0=t2\"}\nreturn %2\n");
  EXPECT_EQ(cost.flops, 3 * 12);
  EXPECT_EQ(cost.bytes(), 3 * 12 * 4);
}

TEST(Cost, SourcesViewsAndAssignsAreFreeAndAnEmbeddingReadsOnlyItsRows) {
  const Graph graph = graph_of(
      "variable 0 \"table\" f32[1000, 8]\n%0 = variable {shape=[1000, 8]}\n%1 = input {shape=[3], dtype=i64}\n"
      "%2 = embedding(%1, %0)\n%3 = reshape(%2) {shape=[24]}\nassign(%0)\nreturn %3\n");
  EXPECT_EQ(cost_of(graph, 0).bytes(), 0);
  EXPECT_EQ(cost_of(graph, 2).bytes_read, 3 * 8 + 3 * 8 * 4);
  EXPECT_EQ(cost_of(graph, 3).bytes(), 0);
  EXPECT_EQ(cost_of(graph, 4).bytes(), 0);
  EXPECT_EQ(cost_of(graph).bytes(), cost_of(graph, 2).bytes());
}

Cost cost_of_control(std::string_view op, const TraceFn& f) {
  const Graph graph = trace(f, std::vector{zeros({8, 4}), zeros({4, 4}), zeros({}, DType::boolean)}).graph;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (is_op(graph.node(id), op)) return cost_of(graph, id);
  }
  ADD_FAILURE() << "no " << op;
  return {};
}

constexpr double kProduct = 2.0 * 8 * 4 * 4;              // flops of x [8, 4] times w [4, 4]
constexpr double kMoved = 4.0 * (8 * 4 + 4 * 4 + 8 * 4);  // bytes of its operands and of its result

TEST(Cost, ABranchCostsAsMuchAsTheDearerOne) {
  const Cost cost = cost_of_control("cond", [](std::span<const Tensor> in) {
    return cond(
        in[2], [&] { return TensorList{in[0] + 1.0}; }, [&] { return TensorList{matmul(in[0], in[1])}; });
  });
  EXPECT_EQ(cost.flops, kProduct);
  EXPECT_EQ(cost.bytes(), kMoved);
}

TEST(Cost, AScanCostsItsBodyForEveryTrip) {
  const Cost cost = cost_of_control("scan", [](std::span<const Tensor> in) {
    const auto product = [&](const TensorList& carry, const TensorList&) {
      return std::pair{TensorList{matmul(carry[0], in[1])}, TensorList{}};
    };
    return scan(product, {in[0]}, {in[0]}).first;
  });
  EXPECT_GE(cost.flops, 8 * kProduct) << "a trip for every row of x";
  EXPECT_LE(cost.flops, 9 * kProduct);
}

TEST(Cost, ALoopCostsAsManyTripsAsItsBoundAllowsAndOneWithoutABound) {
  const auto loop = [](std::int64_t max_trips) {
    return cost_of_control("while", [max_trips](std::span<const Tensor> in) {
      return while_loop([&](const TensorList&) { return in[2]; },
                        [&](const TensorList& s) { return TensorList{matmul(s[0], in[1])}; }, {in[0]},
                        {.max_trips = max_trips});
    });
  };
  EXPECT_EQ(loop(5).flops, 5 * kProduct);
  EXPECT_EQ(loop(0).flops, kProduct);
}

}  // namespace
}  // namespace starling::graph
