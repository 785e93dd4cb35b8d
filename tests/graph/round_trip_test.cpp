#include <random>

#include "graph/passes_testing.h"
#include "starling/base/error.h"
#include "starling/graph/tracer.h"
#include "starling/ops/def/registry.h"
#include "starling/starling.h"

namespace starling::graph {
namespace {

// Compares everything in a graph except names of values.
void expect_same(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.outputs, b.outputs);
  ASSERT_EQ(a.variables.size(), b.variables.size());
  for (std::size_t i = 0; i < a.variables.size(); ++i) {
    EXPECT_EQ(a.variables[i].name, b.variables[i].name);
    EXPECT_EQ(a.variables[i].type, b.variables[i].type);
  }
  ASSERT_EQ(a.constants.size(), b.constants.size());
  for (std::size_t i = 0; i < a.constants.size(); ++i) {
    EXPECT_EQ(a.constants[i].type(), b.constants[i].type());
    EXPECT_EQ(a.constants[i].to_vector(), b.constants[i].to_vector());
  }
  for (NodeId id = 0; id < a.size(); ++id) {
    const Node &x = a.node(id), &y = b.node(id);
    EXPECT_EQ(x.op, y.op);
    EXPECT_TRUE(x.attrs == y.attrs) << x.op->name;
    EXPECT_TRUE(x.in == y.in && x.out == y.out && x.after == y.after) << "node " << id;
    EXPECT_EQ(x.origin, y.origin);
    EXPECT_EQ(x.scope.str(), y.scope.str());
    EXPECT_TRUE(x.device == y.device && x.lane == y.lane) << "node " << id;
    for (std::size_t i = 0; i < x.out.size(); ++i) {
      EXPECT_EQ(a.value(x.out[i]).type, b.value(y.out[i]).type);
      EXPECT_TRUE(a.value(x.out[i]).layouts == b.value(y.out[i]).layouts) << "node " << id;
    }
  }
}

void expect_round_trip(const Graph& graph) {
  const std::string text = print(graph);
  Graph back;
  ASSERT_NO_THROW(back = parse_graph(text)) << text;
  EXPECT_EQ(print(back), text);
  expect_same(graph, back);
}

// Grows a graph of every kind of source and many kinds of op, with every annotation a node can have.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  Graph make() {
    for (int i = 0, n = pick(1, 3); i < n; ++i) annotate(graph_.value(graph_.add_input({dtype(), shape()})).node);
    for (int i = 0, n = pick(1, 3); i < n; ++i) {
      const int index = graph_.add_variable({name(), {dtype(), shape()}, {}});
      annotate(graph_.value(graph_.read(index)).node);
    }
    for (int i = 0, n = pick(1, 3); i < n; ++i) annotate(graph_.value(graph_.add_constant(constant())).node);
    for (int i = 0, n = pick(5, 40); i < n; ++i) grow();
    for (int i = 0, n = pick(0, 3); i < n; ++i) graph_.outputs.push_back(any_value());
    return graph_;
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[pick(0, static_cast<int>(list.size()) - 1)];
  }
  DType dtype() { return one_of({DType::f32, DType::f64, DType::f16, DType::bf16}); }
  Shape shape() {
    Shape made;
    for (int i = 0, n = pick(0, 3); i < n; ++i) made.push_back(pick(1, 3));
    return made;
  }
  std::string name() {
    return fmt::format("{}{}", one_of<const char*>({"a.b", "odd \"name\"", "x\\y", "z, {w}"}), serial_++);
  }
  ValueId any_value() { return pick(0, static_cast<int>(graph_.values().size()) - 1); }

  Tensor constant() {
    const DType type = one_of({DType::f32, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean});
    const Shape size = shape();
    std::vector<double> values;
    for (std::int64_t i = 0; i < size.numel(); ++i)
      values.push_back(is_float(type) ? std::normal_distribution<>()(random_) * std::pow(10, pick(-20, 20))
                                      : pick(0, 1));
    return from_doubles(values, size, type);
  }

  void annotate(NodeId id) {
    Node& node = graph_.node(id);
    if (pick(0, 2) == 0) node.scope = Symbol(name());
    if (pick(0, 3) == 0 && id > 0) node.origin = pick(0, id - 1);
    if (pick(0, 3) == 0 && id > 0) node.after.push_back(pick(0, id - 1));
    if (pick(0, 5) == 0) node.lane = Lane::comm;
    if (pick(0, 3) == 0)
      node.device = {one_of({DeviceKind::cpu, DeviceKind::cuda}), static_cast<std::uint8_t>(pick(0, 3))};
    for (ValueId out : graph_.node(id).out) {
      if (pick(0, 4) != 0) continue;
      graph_.value(out).layouts.push_back(one_of(
          {Layout::replicate(), Layout::split(0), Layout::partial(ReduceOp::sum), Layout::partial(ReduceOp::max)}));
    }
  }

  // Adds a random op that fits its operands; others are retried.
  void grow() {
    static const auto ops = [] {
      std::vector<const OpDef*> all;
      for (const OpDef* op : op_registry().sorted()) {
        if (op->max_inputs() != 0 && !is_state(*op)) all.push_back(op);
      }
      return all;
    }();
    for (int tries = 0; tries < 200; ++tries) {
      const OpDef& op = *ops[static_cast<std::size_t>(pick(0, static_cast<int>(ops.size()) - 1))];
      const int most = op.max_inputs() < 0 ? 4 : op.max_inputs();
      std::vector<ValueId> in;
      for (int i = 0, n = pick(std::max(1, op.min_inputs()), std::max(1, most)); i < n; ++i) in.push_back(any_value());
      try {
        annotate(graph_.add(op, in, Attrs::defaults(*op.attrs)));
        return;
      } catch (const Error&) {
      }
    }
  }

  static bool is_state(const OpDef& op) { return op.name == "assign"; }

  std::mt19937 random_;
  Graph graph_;
  int serial_ = 0;
};

TEST(RoundTrip, RandomGraphsComeBackNodeByNode) {
  std::set<std::string> ops;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const Graph graph = RandomGraph(seed).make();
    for (const auto& node : graph.nodes()) ops.insert(node.op->name);
    expect_round_trip(graph);
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(ops.size(), 100U);  // the graphs cover enough ops
}

TEST(RoundTrip, TracedStepsOfTheZooComeBackBeforeAndAfterThePasses) {
  for (const std::string& name : zoo::nets().names()) {
    SCOPED_TRACE(name);
    const zoo::Sized known = zoo::nets().small(name);
    const zoo::Recipe recipe = known.net.make();
    const auto net = recipe.make();
    optim::Sgd optimizer(net->parameters(), {.lr = 0.1, .momentum = 0.9});
    const TensorList batch = zoo::random_batch(recipe, known.batch);
    const std::vector<Tensor> arguments(batch.begin(), batch.end());
    const auto step = [&](std::span<const Tensor> in) {
      const Tensor loss = zoo::loss(recipe, *net, in);
      loss.backward();
      optimizer.step();
      return TensorList{loss};
    };
    const Graph traced = trace(step, arguments).graph;
    expect_round_trip(traced);
    expect_round_trip(run_passes(traced, {}, {}).graph);
  }
}

TEST(RoundTrip, AnotherVersionOfTheTextIsRefusedByName) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      parse_graph(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(print(Graph()).find("starling-graph 1\n"), 0U);
  EXPECT_NE(error_of("starling-graph 7\nreturn\n").find("line 1: expected version 1, got 7"), std::string::npos)
      << error_of("starling-graph 7\nreturn\n");
  EXPECT_NE(error_of("return\n").find("starling-graph"), std::string::npos);
}

}  // namespace
}  // namespace starling::graph
