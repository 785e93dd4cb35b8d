#include "starling/graph/builder.h"

#include <gtest/gtest.h>

#include "starling/graph/verifier.h"
#include "starling/starling.h"

namespace starling::graph {
namespace {

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Tensor scalar(double value) { return from_doubles(std::vector<double>{value}, {}); }

// y = relu(x w), and a step against it.
struct Small {
  GraphBuilder b;
  Tensor x = b.placeholder("x", DType::f32, {2, 3});
  Tensor w = b.variable("w", normal({3, 4}, {.stddev = 0.5}));
  Tensor y = b.name("y", relu(matmul(x, w)));
  Tensor loss = b.name("loss", mean(mul(y, y)));
};

TEST(GraphBuilder, AppendsNodesOfTheSameFunctionsThatRunEagerly) {
  Small s;
  EXPECT_TRUE(s.y.traced());
  EXPECT_EQ(s.y.shape(), (Shape{2, 4}));
  const Graph graph = s.b.finish();
  EXPECT_EQ(graph.inputs.size(), 1u);
  const std::string text = print(graph);
  EXPECT_TRUE(holds(text, "f32[2, 3] \"x\"")) << text;
  EXPECT_TRUE(holds(text, "f32[2, 4] \"y\"")) << text;
  EXPECT_FALSE(add(scalar(1), scalar(2)).traced()) << "after finish() ops run at once again";
}

TEST(GraphBuilder, LeavesTheThreadAsItWasWhenBuildingFails) {
  try {
    const Small s;
    matmul(s.x, s.x);
    FAIL() << "the shapes do not agree";
  } catch (const Error&) {
  }
  EXPECT_FALSE(add(scalar(1), scalar(2)).traced());
}

TEST(GraphBuilder, PrintsAndParsesBackWithNamesFirstValuesAndTargets) {
  Small s;
  const Tensor g = s.b.gradients(s.loss, {s.w})[0];
  s.b.assign(s.w, sub(s.w, mul(g, 0.1)), "train");
  const Graph graph = s.b.finish();
  const std::string text = print(graph);
  const Graph again = parse_graph(text);
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(again.targets.at("train").size(), 1u);
  EXPECT_TRUE(is_op(again.node(again.targets.at("train")[0]), "assign"));
  bool declared = false;
  for (const auto& variable : again.variables) declared |= variable.name == "w" && variable.init >= 0;
  EXPECT_TRUE(declared);
}

TEST(GraphBuilder, HoldsAFirstValueOnce) {
  GraphBuilder b;
  b.variable("w", full({1000}, 0.5));
  b.variable("c", from_doubles(std::vector<double>{1, 2}, {2}));
  const Graph graph = b.finish();
  EXPECT_EQ(graph.constants.size(), 1u) << print(graph);
}

TEST(GraphBuilder, RefusesTextWithTwoValuesOfOneName) {
  const std::string text =
      "starling-graph 1\n%0 = input {shape=[2]} : f32[2] \"x\"\n%1 = neg(%0) : f32[2] \"x\"\nreturn\n";
  EXPECT_TRUE(holds(error_of([&] { parse_graph(text); }), "one value named 'x', got two"));
  const std::string init =
      "starling-graph 1\nvariable 0 \"w\" f32[2]\n%0 = full {shape=[3]} : f32[3]\ninit 0 %0\nreturn\n";
  EXPECT_TRUE(holds(error_of([&] { parse_graph(init); }), "to begin with a value of f32[2]"));
}

TEST(GraphBuilder, RefusesNamesThatAreTakenEmptyOrUnknown) {
  Small s;
  EXPECT_TRUE(holds(error_of([&] { s.b.placeholder("x", DType::f32, {1}); }), "got 'x' again"));
  EXPECT_TRUE(holds(error_of([&] { s.b.name("again", s.y); }), "got 'y'"));
  EXPECT_TRUE(holds(error_of([&] { s.b.name("", relu(s.y)); }), "expected a name"));
  EXPECT_TRUE(holds(error_of([&] { s.b.find("los"); }), "did you mean 'loss'?"));
  EXPECT_EQ(s.b.find("y").impl()->value, s.y.impl()->value);
}

TEST(GraphBuilder, RefusesTheOuterBuilderWhileAnInnerOneBuilds) {
  GraphBuilder outer;
  {
    GraphBuilder inner;
    EXPECT_TRUE(holds(error_of([&] { outer.placeholder("x", DType::f32, {1}); }), "innermost builder"));
    inner.placeholder("x", DType::f32, {1});
    inner.finish();
    EXPECT_TRUE(holds(error_of([&] { inner.finish(); }), "has finished"));
  }
  EXPECT_NO_THROW(outer.placeholder("x", DType::f32, {1}));
}

TEST(GraphBuilder, RefusesGradientsOfWhatHasNoHistory) {
  Small s;
  const Tensor c = s.b.constant(scalar(3));
  EXPECT_TRUE(holds(error_of([&] { s.b.gradients(s.loss, {c}); }), "[gradients] expected edges computed from"));
  EXPECT_TRUE(holds(error_of([&] { s.b.gradients(c, {s.w}); }), "[gradients] expected a loss"));
}

TEST(GraphBuilder, CopiesTensorsThatItIsGivenAsConstants) {
  GraphBuilder b;
  const Tensor given = from_doubles(std::vector<double>{5}, {1});
  b.name("y", add(b.placeholder("x", DType::f32, {1}), given));
  copy_into(given, from_doubles(std::vector<double>{7}, {1}));
  const Graph graph = b.finish();
  ASSERT_EQ(graph.constants.size(), 1u);
  EXPECT_EQ(graph.constants[0].item(), 5);
  EXPECT_EQ(graph.inputs.size(), 1u);
}

TEST(GraphBuilder, DoesNotMistakeALaterTensorForOneThatIsGone) {
  GraphBuilder b;
  const Tensor x = b.placeholder("x", DType::f32, {1});
  for (int i = 0; i < 50; ++i) add(x, from_doubles(std::vector<double>{static_cast<double>(i)}, {1}));
  const Graph graph = b.finish();
  ASSERT_EQ(graph.constants.size(), 50u) << "each temporary is a constant of its own";
  for (int i = 0; i < 50; ++i) EXPECT_EQ(graph.constants[static_cast<std::size_t>(i)].item(), i);
}

TEST(GraphBuilder, MakesFirstValuesIndependentOfOtherState) {
  manual_seed(11);
  GraphBuilder b;
  const Tensor w = b.variable("w", normal({3}));
  b.variable("twice", mul(w, 2.0));
  const Graph graph = parse_graph(print(b.finish()));
  for (const auto& variable : graph.variables) {
    if (variable.init < 0) continue;
    // The initial value depends on no variable and no placeholder.
    std::vector<ValueId> open{variable.init};
    while (!open.empty()) {
      const Node& node = graph.maker(open.back());
      open.pop_back();
      EXPECT_FALSE(is_op(node, "variable") || is_op(node, "input")) << variable.name;
      for (ValueId in : node.in) open.push_back(in);
    }
  }
  EXPECT_TRUE(holds(error_of([] {
                      GraphBuilder other;
                      const Tensor x = other.placeholder("x", DType::f32, {1});
                      other.variable("w", mul(x, 2.0));
                    }),
                    "not to depend on a placeholder, got 'x'"));
}

}  // namespace
}  // namespace starling::graph
