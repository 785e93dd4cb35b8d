#include "starling/graph/printer.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "graph/passes_testing.h"
#include "starling/ops/api/comm.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"

namespace starling::graph {
namespace {

Graph small_graph() {
  Graph graph;
  const int weight = graph.add_variable({"fc1.weight", {DType::f32, {5, 4}}, {}});
  const ValueId x = graph.add_input({DType::f32, {3, 4}});
  const ValueId w = graph.read(weight);
  const ValueId step =
      graph.add_constant(from_host<std::int64_t>(std::vector<std::int64_t>{0, std::int64_t{1} << 60}, {2}));
  const ValueId in[] = {x, w};
  Attrs attrs = Attrs::defaults(*find_op("linear").attrs);
  attrs.set("activation", "\"relu\"");
  const NodeId linear = graph.add(find_op("linear"), in, attrs);
  graph.node(linear).scope = Symbol("mlp/\"fc1\"");
  graph.value(graph.node(linear).out[0]).layouts = {Layout::split(0), Layout::partial(ReduceOp::max)};
  const NodeId assign = graph.add(find_op("assign"), {&w, 1}, op::AssignAttrs{weight});
  const NodeId reduce = graph.add(find_op("all_reduce"), {&step, 1}, op::AllReduceAttrs{});
  Node& node = graph.node(reduce);
  node.lane = Lane::comm;
  node.device = {DeviceKind::cpu, 1};
  node.origin = linear;
  node.after = {linear, assign};
  graph.outputs = {graph.node(linear).out[0], node.out[0]};
  return graph;
}

TEST(Printer, WritesEveryFieldThatIsNotDefault) {
  EXPECT_EQ(print(small_graph()), R"(starling-graph 1
variable 0 "fc1.weight" f32[5, 4]
constant 0 i64[2] {0, 1152921504606846976}
%0 = input {shape=[3, 4]}                                           : f32[3, 4]
%1 = variable {shape=[5, 4]}                                        : f32[5, 4]
%2 = constant {shape=[2], dtype=i64}                                : i64[2]
%3 = linear(%0, %1) {activation="relu"} @"mlp/\"fc1\""              : f32[3, 5]<S0, P(max)>
assign(%1)
%4 = all_reduce(%2) origin=%3 after=(%3, #4) lane=comm device=cpu:1 : i64[2]
return %3, %4
)");
}

TEST(Printer, ShortFormLeavesOutScopesTypesAndOrigins) {
  EXPECT_EQ(print_short(small_graph()), R"(%0 = input 0
%1 = variable 0
%2 = constant 0
%3 = linear(%0, %1) {activation="relu"}
assign 0(%1)
%4 = all_reduce(%2) after=(%3, #4) lane=comm device=cpu:1
return %3, %4
)");
}

TEST(Printer, WritesFloatsThatReadBackExactly) {
  Graph graph;
  const double values[] = {0.1, -0.0, 1e-45, 3.4028234663852886e38, HUGE_VAL, std::nan("")};
  graph.add_constant(from_doubles(values, {6}, DType::f32));
  const Graph back = parse_graph(print(graph));
  const Tensor& before = graph.constants[0];
  const Tensor& after = back.constants[0];
  EXPECT_EQ(std::memcmp(before.raw(), after.raw(), 6 * sizeof(float)), 0) << print(graph);
}

TEST(Printer, ConstantsOfEveryWholeNumberTypeComeBack) {
  const auto both_ends = []<class T>(DType dtype) {
    Graph graph;
    const std::vector<T> ends{std::numeric_limits<T>::min(), 0, 1, std::numeric_limits<T>::max()};
    graph.add_constant(from_host<T>(ends, {4}));
    ASSERT_EQ(graph.constants[0].dtype(), dtype);
    const Graph back = parse_graph(print(graph));
    ASSERT_EQ(back.constants[0].type(), graph.constants[0].type());
    EXPECT_EQ(std::vector<T>(back.constants[0].template data<T>(), back.constants[0].template data<T>() + 4), ends);
  };
  both_ends.operator()<std::int64_t>(DType::i64);
  both_ends.operator()<std::int32_t>(DType::i32);
  both_ends.operator()<std::int16_t>(DType::i16);
  both_ends.operator()<std::int8_t>(DType::i8);
  both_ends.operator()<std::uint64_t>(DType::u64);
  both_ends.operator()<std::uint32_t>(DType::u32);
  both_ends.operator()<std::uint16_t>(DType::u16);
  both_ends.operator()<std::uint8_t>(DType::u8);
}

}  // namespace
}  // namespace starling::graph
