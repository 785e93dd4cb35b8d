#include <gtest/gtest.h>

#include "graph/passes_testing.h"
#include "runtime/step_testing.h"
#include "starling/graph/cost/cost.h"
#include "starling/runtime/execution/instance.h"

namespace starling::runtime {
namespace {

// A deep network with its optimizer, made from a seed.
struct Deep {
  nn::Sequential net;
  std::unique_ptr<optim::Sgd> opt;
  Tensor x, y;

  Tensor step(const Tensor& input, const Tensor& labels) {
    Tensor loss = cross_entropy(net(input), labels);
    loss.backward();
    opt->step();
    return loss;
  }

  static Deep dense(bool dropout) {
    Deep deep;
    manual_seed(5);
    for (int i = 0; i < 16; ++i) {
      deep.net.add(fmt::format("fc{}", i), nn::Linear({.in = 64, .out = 64}));
      deep.net.add(fmt::format("tanh{}", i), nn::Tanh());
      if (dropout) deep.net.add(fmt::format("drop{}", i), nn::Dropout(0.2));
    }
    deep.net.add("out", nn::Linear({.in = 64, .out = 10}));
    return deep.finish({256, 64}, 256);
  }

  static Deep convolutional() {
    Deep deep;
    manual_seed(6);
    deep.net.add("conv0", nn::Conv2d({.in = 1, .out = 8, .kernel = 3, .padding = 1}));
    for (int i = 1; i < 16; ++i) {
      deep.net.add(fmt::format("relu{}", i), nn::Relu());
      deep.net.add(fmt::format("conv{}", i), nn::Conv2d({.in = 8, .out = 8, .kernel = 3, .padding = 1}));
    }
    deep.net.add("flatten", nn::Flatten()).add("out", nn::Linear({.in = 8 * 16 * 16, .out = 10}));
    return deep.finish({32, 1, 16, 16}, 32);
  }

 private:
  Deep finish(const Shape& shape, std::int64_t batch) {
    opt = std::make_unique<optim::Sgd>(net.parameters(), optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
    x = normal(shape);
    y = cast(uniform({batch}, {.low = 0, .high = 9.999}), DType::i64);
    default_generator().seed(5);
    return std::move(*this);
  }
};

struct BudgetRun {
  std::vector<double> values;  // losses and all parameters after
  std::size_t bytes = 0;
  double flops = 0;
};

BudgetRun train(Deep deep, std::size_t budget) {
  auto step = compile([&](const Tensor& x, const Tensor& y) { return deep.step(x, y); },
                      {.threads = 1, .memory_budget = budget});
  BudgetRun outcome;
  for (int i = 0; i < 3; ++i) outcome.values.push_back(step(deep.x, deep.y).item());
  for (const auto& p : deep.net.parameters()) {
    for (double value : p.to_vector()) outcome.values.push_back(value);
  }
  outcome.bytes = step.memory_bytes();
  outcome.flops = cost_of(step.graph()).flops;
  return outcome;
}

void expect_fits(const char* name, const std::function<Deep()>& make) {
  const BudgetRun plain = train(make(), 0);
  const std::size_t budget = plain.bytes * 6 / 10;
  const BudgetRun bounded = train(make(), budget);
  EXPECT_LE(bounded.bytes, budget) << name;
  EXPECT_EQ(bounded.values, plain.values) << name;
  EXPECT_LE(bounded.flops, 1.5 * plain.flops) << name;
  EXPECT_GT(bounded.flops, plain.flops) << name;
  std::printf("%s: %zu bytes, %zu under a budget of %zu; %.3f times the arithmetic\n", name, plain.bytes, bounded.bytes,
              budget, bounded.flops / plain.flops);
}

TEST(Rematerialise, DeepNetworksTrainTheSameInLessMemory) {
  expect_fits("dense", [] { return Deep::dense(false); });
  expect_fits("dense with dropout", [] { return Deep::dense(true); });
  expect_fits("convolutional", [] { return Deep::convolutional(); });
}

TEST(Rematerialise, ABudgetThatIsPlentyChangesNothing) {
  const BudgetRun plain = train(Deep::dense(false), 0);
  EXPECT_EQ(train(Deep::dense(false), plain.bytes).flops, plain.flops);
}

TEST(Rematerialise, ABudgetOutOfReachIsRefusedNamingTheLeast) {
  try {
    train(Deep::dense(false), 1000);
    FAIL() << "expected it to be refused";
  } catch (const Error& error) {
    const std::string text = error.what();
    unsigned long long least = 0, given = 0;
    ASSERT_EQ(std::sscanf(text.c_str(),
                          "[compile] expected a memory budget of at least %llu bytes for this program, got %llu",
                          &least, &given),
              2)
        << text;
    EXPECT_EQ(given, 1000u);
    EXPECT_LE(train(Deep::dense(false), least).bytes, least);  // and that much does
  }
}

TEST(Rematerialise, SwitchedOffItLeavesAProgramThatDoesNotFit) {
  Deep deep = Deep::dense(false);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return deep.step(x, y); },
                      {.disable = {"rematerialise"}, .memory_budget = 1 << 18});
  EXPECT_THROW(step(deep.x, deep.y), Error);
}

// Calls of a pass at the beginning and of `rematerialise`, with the budget of the last one.
struct Calls {
  int early = 0, late = 0;
  std::size_t budget = 0;
};

Calls& calls() {
  static Calls counted;  // a pass is a plain function
  return counted;
}

graph::Graph early(const graph::Graph& graph, const graph::PassContext&) {
  ++calls().early;
  return graph;
}

graph::Graph late(const graph::Graph& graph, const graph::PassContext& context) {
  ++calls().late;
  calls().budget = context.program.memory_budget;
  return graph::run_pass("rematerialise", graph, context);
}

std::vector<graph::Pass> counted_passes() {
  std::vector<graph::Pass> passes = graph::all_passes();
  for (graph::Pass& pass : passes) {
    if (pass.name == "rematerialise") pass.run = late;
  }
  passes.insert(passes.begin(), graph::Pass{.name = "early", .doc = "", .run = early});
  return passes;
}

TEST(Rematerialise, TriesBudgetsWithoutRunningThePassesBeforeItAgain) {
  Deep deep = Deep::dense(false);
  const Tensor like[] = {deep.x, deep.y};
  const graph::Graph traced =
      graph::trace([&](std::span<const Tensor> in) { return TensorList{deep.step(in[0], in[1])}; }, like).graph;
  const std::size_t plenty = build_program(traced, {.program = {.threads = 1}}).executable->arena_bytes();
  const std::vector<graph::Pass> passes = counted_passes();
  graph::PassContext context;
  context.passes = passes;
  context.program = {.threads = 1, .memory_budget = plenty * 6 / 10};
  calls() = {};
  const BuiltProgram built = build_program(traced, context);
  EXPECT_EQ(calls().early, 1);
  EXPECT_GT(calls().late, 1);
  EXPECT_EQ(built.reports.size(), passes.size() + 1) << "every pass has one row, and lowering";
  // All passes in one go, under the budget that served, give the same program.
  context.program.memory_budget = calls().budget;
  EXPECT_GT(calls().budget, 0u);
  EXPECT_EQ(print(built.executable->graph()), print(run_passes(traced, context, {}, passes).graph));
}

}  // namespace
}  // namespace starling::runtime
