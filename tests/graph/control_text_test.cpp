#include <gtest/gtest.h>

#include "graph/passes_testing.h"
#include "starling/graph/control/control.h"
#include "starling/graph/parser.h"
#include "starling/graph/pass.h"
#include "starling/graph/precision.h"
#include "starling/graph/printer.h"
#include "starling/graph/tracer.h"
#include "starling/graph/verifier.h"
#include "starling/ops/def/scopes/scope.h"
#include "starling/starling.h"

namespace starling::graph {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Graph traced(const TraceFn& f, const std::vector<Tensor>& in) { return trace(f, in).graph; }

Tensor doubled_until(const Tensor& x, double bound) {
  return while_loop([=](const TensorList& s) { return sum(s[0]) < bound; },
                    [](const TensorList& s) { return TensorList{s[0] * 2.0}; }, {x})[0];
}

// All four ops, nested, with constants in bodies and bodies in bodies.
Graph rich() {
  const auto loss = [](std::span<const Tensor> in) {
    const Tensor offset = constant(from_doubles(std::vector<double>{0.5, 0.25}, {2}, DType::f64));
    const auto [c, ys] = scan(
        [&](const TensorList& carry, const TensorList& x) {
          const Tensor next = cond(
              sum(x[0]) > 0, [&] { return TensorList{doubled_until(carry[0] + offset, 9)}; },
              [&] { return TensorList{carry[0] * x[0]}; })[0];
          return std::pair{TensorList{next}, TensorList{sum(next)}};
        },
        {in[0]}, {in[1]});
    return sum(c[0]) + sum(ys[0]);
  };
  const auto gradient = grad_all(loss);
  return traced([&](std::span<const Tensor> in) { return gradient(in); },
                {zeros({2}, DType::f64), zeros({3, 2}, DType::f64)});
}

TEST(ControlText, ReadsBackWithAllItsBodies) {
  const Graph graph = rich();
  const std::string text = print(graph);
  EXPECT_NE(text.find("body 0 {"), std::string::npos);
  EXPECT_NE(text.find("while_grad"), std::string::npos);
  const Graph again = parse_graph(text);
  EXPECT_EQ(print(again), text);
  const Graph passed = run_passes(graph, {}, {}).graph;
  EXPECT_EQ(print(parse_graph(print(passed))), print(passed));
}

TEST(ControlText, PrintsALoopAsALoop) {
  const Graph graph =
      run_passes(traced([](std::span<const Tensor> in) { return TensorList{doubled_until(in[0], 9)}; }, {zeros({3})}),
                 {}, {"fuse"})
          .graph;
  EXPECT_EQ(print_short(graph),
            "body 0 {\n"
            "  %0 = input 0\n"
            "  %1 = input 1\n"
            "  %2 = sum(%1)\n"
            "  %3 = full {value=9}\n"
            "  %4 = less(%2, %3)\n"
            "  return %4\n"
            "}\n"
            "body 1 {\n"
            "  %0 = input 0\n"
            "  %1 = input 1\n"
            "  %2 = full {value=2}\n"
            "  %3 = mul(%1, %2)\n"
            "  return %3\n"
            "}\n"
            "%0 = input 0\n"
            "%1 = while(%0) {condition=0, body=1}\n"
            "return %1\n");
}

const char* kLoop =
    "starling-graph 1\n"
    "body 0 {\n"
    "  %0 = input {index=0, dtype=i64}\n"
    "  %1 = input {index=1}\n"
    "  %2 = less(%1, %1)\n"
    "  return %2\n"
    "}\n"
    "body 1 {\n"
    "  %0 = input {index=0, dtype=i64}\n"
    "  %1 = input {index=1}\n"
    "  return %1\n"
    "}\n"
    "%0 = input {index=0}\n"
    "%1 = while(%0) {condition=0, body=1}\n"
    "return %1\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(ControlText, RefusesWhatDoesNotFit) {
  EXPECT_NO_THROW(parse_graph(kLoop));
  const auto refusal = [](const std::string& from, const std::string& to) {
    return message_of([&] { parse_graph(with(kLoop, from, to)); });
  };
  EXPECT_NE(refusal("body=1}", "body=2}").find("[while] expected body to be one of 2 bodies, got 2"),
            std::string::npos);
  EXPECT_NE(refusal("condition=0, body=1", "condition=1, body=1").find("expected the condition to give bool[]"),
            std::string::npos);
  EXPECT_NE(refusal("condition=0, body=1", "condition=0, body=0").find("expected state 0 to stay f32[], got bool[]"),
            std::string::npos);
  EXPECT_NE(refusal("body=1}", "body=1, states=2}").find("expected states of 0 to 1 operands, got 2"),
            std::string::npos);
  EXPECT_NE(refusal("body=1}", "body=1, states=-1}"), "");
  EXPECT_NE(refusal("body=1}", "body=1, max_trips=-4}"), "");
  EXPECT_NE(refusal("body=1}", "body=1, saves=true}"), "");
  EXPECT_NE(refusal("return %1\n}\n%0", "return %1\n%0"), "") << "a body that does not end";
  EXPECT_NE(refusal("body 1 {", "body 3 {").find("expected body 1, got 3"), std::string::npos);
  std::string deep = "starling-graph 1\n";
  for (int i = 0; i < 5000; ++i) deep += "body 0 {\n";
  EXPECT_NE(message_of([&] { parse_graph(deep); }).find("expected bodies at most 32 deep"), std::string::npos);
}

// Each level uses the one below in both branches: 30 levels would be a billion nodes.
TEST(ControlText, RefusesBodiesThatGrowWithoutBound) {
  const auto nested = [](int depth) {
    std::string text = "%0 = input {index=0, dtype=bool}\nreturn %0\n";
    for (int i = 0; i < depth; ++i) {
      text = "body 0 {\n" + text + "}\n%0 = input {index=0, dtype=bool}\n" +
             "%1 = cond(%0, %0) {then=0, otherwise=0}\nreturn %1\n";
    }
    return "starling-graph 1\n" + text;
  };
  EXPECT_NO_THROW(parse_graph(nested(10)));
  EXPECT_NE(message_of([&] { parse_graph(nested(30)); }).find("nodes with every body written out"), std::string::npos);
}

TEST(ControlText, SurvivesMutations) {
  const std::string text = print(rich());
  std::uint64_t state = 7;
  const auto next = [&](std::size_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::size_t>(state >> 33) % n;
  };
  for (int round = 0; round < 300; ++round) {
    std::string changed = text;
    const char pieces[] = "0123456789,%{}()[]=-\n abe";
    for (std::size_t k = 1 + next(3); k > 0; --k) changed[next(changed.size())] = pieces[next(sizeof(pieces) - 1)];
    try {
      verify(parse_graph(changed), "mutation");
    } catch (const Error&) {
    }
  }
}

TEST(ControlVerifier, LooksIntoBodies) {
  Graph graph = parse_graph(kLoop);
  Graph broken = *graph.bodies[1];
  broken.value(broken.outputs[0]).type.dtype = DType::f64;
  graph.bodies[1] = std::make_shared<const Graph>(broken);
  EXPECT_NE(message_of([&] { verify(graph, "test"); }).find("in body 1"), std::string::npos);
}

std::size_t count(const Graph& graph, std::string_view op) {
  std::size_t found = 0;
  for (const Node& node : graph.nodes()) found += is_op(node, op);
  return found;
}

TEST(ControlPasses, CseMergesEqualLoopsButNoneThatDrawsNumbers) {
  const auto pure = [](std::span<const Tensor> in) {
    return TensorList{doubled_until(in[0], 9), doubled_until(in[0], 9), doubled_until(in[0], 8)};
  };
  const Graph before = traced(pure, {zeros({3})});
  EXPECT_EQ(before.bodies.size(), 6u);
  const Graph merged = run_pass("cse", before, {});
  EXPECT_EQ(count(before, "while"), 3u);
  EXPECT_EQ(count(merged, "while"), 2u);
  EXPECT_EQ(merged.bodies.size(), 3u) << "equal bodies are one";
  const auto random = [](std::span<const Tensor> in) {
    const auto branch = [&] {
      const SiteCounts same_site;
      return cond(
          sum(in[0]) > 0, [] { return TensorList{uniform({2})}; }, [] { return TensorList{uniform({2})}; })[0];
    };
    return TensorList{branch(), branch()};
  };
  const Graph drawn = run_pass("cse", traced(random, {zeros({3})}), {});
  EXPECT_EQ(count(drawn, "cond"), 2u);
}

TEST(ControlPasses, PruneDropsLoopsThatNobodyReadsAndTheirBodies) {
  const auto f = [](std::span<const Tensor> in) {
    doubled_until(in[0], 9);
    return TensorList{doubled_until(in[0], 8)};
  };
  const Graph graph = traced(f, {zeros({3})});
  EXPECT_EQ(graph.bodies.size(), 4u);
  const Graph pruned = run_pass("prune", graph, {});
  EXPECT_EQ(count(pruned, "while"), 1u);
  EXPECT_EQ(pruned.bodies.size(), 2u);
  verify(pruned, "prune");
}

TEST(ControlPasses, GoIntoBodiesAtEveryDepth) {
  const auto f = [](std::span<const Tensor> in) {
    return while_loop([](const TensorList& s) { return sum(s[0]) < 9; },
                      [](const TensorList& outer) {
                        return while_loop([&](const TensorList& s) { return sum(s[0]) < sum(outer[0]) + 1.0; },
                                          [](const TensorList& s) {
                                            return TensorList{exp(s[0] * 2.0 + 1.0) + exp(s[0] * 2.0 + 1.0)};
                                          },
                                          {outer[0]});
                      },
                      {in[0]});
  };
  const auto innermost = [](const Graph& graph) { return graph.bodies[1]->bodies[1]->size(); };
  const Graph graph = traced(f, {zeros({3})});
  const Graph all = run_passes(graph, {}, {}).graph, off = run_passes(graph, {}, {"bodies"}).graph;
  EXPECT_LT(innermost(all), innermost(off));
  EXPECT_EQ(innermost(off), innermost(graph));
  EXPECT_EQ(innermost(run_passes(graph, {}, {"all"}).graph), innermost(graph));
}

TEST(ControlPasses, ConversionToDoubleReachesBodies) {
  const auto f = [](std::span<const Tensor> in) { return TensorList{doubled_until(in[0], 9)}; };
  const Graph wide = in_double(traced(f, {zeros({3})}));
  verify(wide, "in_double");
  EXPECT_EQ(wide.value(wide.outputs[0]).type.dtype, DType::f64);
  EXPECT_EQ(wide.bodies[1]->value(wide.bodies[1]->outputs[0]).type.dtype, DType::f64);
}

TEST(ControlPasses, PartitionWantsWholeOperands) {
  const auto f = [](std::span<const Tensor> in) { return TensorList{doubled_until(in[0], 9)}; };
  const Graph graph = traced(f, {zeros({4})});
  PassContext context{.world = 2, .rank = 0, .inputs = {Layout::split(0)}};
  EXPECT_NE(message_of([&] {
              run_pass("partition", graph, context);
            }).find("[partition] expected operands of while to be whole on every rank, got operand 0 as S0"),
            std::string::npos);
  context.inputs = {Layout::replicate()};
  EXPECT_EQ(count(run_pass("partition", graph, context), "while"), 1u);
}

TEST(ControlTrace, NamesTheOpAndTheLineWhoseShapeDependsOnValues) {
  const std::vector<Tensor> in{zeros({3})};
  const auto said = [&](const TraceFn& f) { return message_of([&] { trace(f, in); }); };
  const int line = __LINE__ + 1;
  const std::string text = said([](std::span<const Tensor> x) { return TensorList{nonzero(x[0])}; });
  EXPECT_NE(text.find("[nonzero] expected a shape known while tracing"), std::string::npos) << text;
  EXPECT_NE(text.find("control_text_test.cpp:" + std::to_string(line)), std::string::npos) << text;
  EXPECT_NE(text.find("while_loop"), std::string::npos) << text;
  const std::string select = said([](std::span<const Tensor> x) { return TensorList{masked_select(x[0], x[0] > 0)}; });
  EXPECT_NE(select.find("[masked_select]"), std::string::npos);
  EXPECT_NE(select.find("control_text_test.cpp:"), std::string::npos);
  const std::string distinct = said([](std::span<const Tensor> x) { return TensorList{unique(x[0]).values}; });
  EXPECT_NE(distinct.find("[unique]"), std::string::npos);
  EXPECT_NE(distinct.find("control_text_test.cpp:"), std::string::npos);
  // In a body too; host reads are refused as always.
  const std::string inside = said([](std::span<const Tensor> x) {
    return while_loop([](const TensorList& s) { return sum(s[0]) < 3; },
                      [](const TensorList& s) { return TensorList{s[0] * nonzero(s[0]).item()}; }, {x[0]});
  });
  EXPECT_NE(inside.find("[nonzero]"), std::string::npos);
  const std::string read = said([](std::span<const Tensor> x) { return TensorList{x[0] * sum(x[0]).item()}; });
  EXPECT_NE(read.find("control_text_test.cpp:"), std::string::npos);
}

TEST(ControlTrace, MakesExplicitOperandsOfWhatABodyReads) {
  Tensor weight = zeros({3});
  weight.set_name("weight");
  const Tensor table = zeros({3});
  const Graph graph = traced(
      [&](std::span<const Tensor> in) {
        const Tensor outer = exp(in[0]);
        return while_loop([](const TensorList& s) { return sum(s[0]) < 3; },
                          [&](const TensorList& s) {
                            const Tensor first = s[0] * weight;
                            const Tensor second = first + table;
                            return TensorList{second * outer + weight};
                          },
                          {in[0]});
      },
      {zeros({3})});
  const Node& loop = graph.maker(graph.outputs[0]);
  ASSERT_TRUE(is_op(loop, "while"));
  ASSERT_EQ(loop.in.size(), 4u) << "the state, then each of weight, table and outer once";
  EXPECT_TRUE(is_op(graph.maker(loop.in[1]), "variable"));
  EXPECT_TRUE(is_op(graph.maker(loop.in[2]), "input")) << "a captured tensor is read at every call";
  EXPECT_TRUE(is_op(graph.maker(loop.in[3]), "exp"));
  for (const auto& body : graph.bodies) EXPECT_TRUE(body->variables.empty());
}

}  // namespace
}  // namespace starling::graph
