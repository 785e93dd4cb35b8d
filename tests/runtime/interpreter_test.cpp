#include <gtest/gtest.h>

#include "runtime/step_testing.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/execution/instance.h"
#include "starling/runtime/interpreter/graph_interpreter.h"

namespace starling::runtime {
namespace {

using testing::Bench;
using testing::bit_equal;
using testing::relative_l2;

// The same graph, op by op and as a planned program, from the same container.
void expect_alike(const std::string& net, bool passes) {
  Bench bench(net, 8, DType::f32);
  const Tensor batch[] = {bench.x, bench.y};
  const graph::Trace traced =
      graph::trace([&](std::span<const Tensor> in) { return TensorList{bench.step(in[0], in[1])}; }, batch);
  const graph::Graph graph = passes ? run_passes(traced.graph, {}, {}).graph : traced.graph;
  const Container one = Container::of(traced.graph).clone(), two = Container::of(traced.graph).clone();
  const Tensor expected = interpret(traced.graph, one, batch)[0];
  Instance instance(Executable::build(graph, {.threads = 1}), two);
  const Tensor got = empty({});
  instance.run(batch, {&got, 1});
  EXPECT_NEAR(got.item(), expected.item(), 1e-5);
  for (const auto& [name, tensor] : one.entries()) EXPECT_LE(relative_l2(two.get(name), tensor), 1e-5) << name;
}

TEST(Interpreter, AgreesWithTheTracedProgram) {
  for (const char* net : {"mlp", "lenet"}) expect_alike(net, false);
}

TEST(Interpreter, AgreesWithTheProgramAfterAllPasses) {
  for (const char* net : {"mlp", "sae_small", "lenet"}) expect_alike(net, true);
}

TEST(Instance, SeveralShareOneExecutable) {
  Tensor counter = zeros({1});
  counter.set_name("counter");
  const Tensor one = from_doubles(std::vector<double>{1}, {1});
  const graph::Trace traced = graph::trace(
      [&](std::span<const Tensor> in) {
        assign(counter, add(counter, in[0]));
        return TensorList{mul(counter, 1.0)};
      },
      {&one, 1});
  const auto executable = Executable::build(traced.graph, {.threads = 1});
  const Container a = Container::of(traced.graph).clone(), b = Container::of(traced.graph).clone();
  Instance first(executable, a), second(executable, b);
  const Tensor out = empty({1});
  for (int i = 0; i < 3; ++i) first.run({&one, 1}, {&out, 1});
  second.run({&one, 1}, {&out, 1});
  EXPECT_EQ(a.get("counter").item(), 3);
  EXPECT_EQ(b.get("counter").item(), 1);
  EXPECT_EQ(counter.item(), 0) << "the traced tensor itself belongs to neither";
}

TEST(Instance, RefusesOperandsOfAnotherType) {
  const Tensor x = zeros({2});
  const graph::Trace traced = graph::trace([](std::span<const Tensor> in) { return TensorList{neg(in[0])}; }, {&x, 1});
  Instance instance(Executable::build(traced.graph, {.threads = 1}), Container::of(traced.graph));
  const Tensor wrong = zeros({3}), out = empty({2});
  EXPECT_THROW(instance.run({&wrong, 1}, {&out, 1}), Error);
}

TEST(NullDevice, PlansProgramsWithoutMemory) {
  const Device null{DeviceKind::null, 0};
  Tensor weight = empty({1 << 16, 1 << 16}, DType::f32, null);
  weight.set_name("weight");
  const Tensor x = empty({1 << 16, 1 << 16}, DType::f32, null);
  const graph::Trace traced =
      graph::trace([&](std::span<const Tensor> in) { return TensorList{relu(matmul(in[0], weight))}; }, {&x, 1});
  const auto executable = Executable::build(run_passes(traced.graph, {}, {}).graph, {.threads = 1});
  EXPECT_GE(executable->arena_bytes(), std::size_t{0});
  EXPECT_EQ(executable->instructions().back().kernel, "null");
}

TEST(Executable, NamesWhatHasNoKernel) {
  OpDef op = find_op("neg");
  op.name = "unheard_of";
  op.id = op_registry().size();
  const Tensor x = zeros({2, 2}, DType::f16);
  const graph::Trace traced =
      graph::trace([&](std::span<const Tensor> in) { return starling::apply(op, in); }, {&x, 1});
  try {
    Executable::build(traced.graph, {.threads = 1});
    FAIL() << "an op without a kernel was planned";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("unheard_of"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("f16"), std::string::npos) << e.what();
  }
}

TEST(Explain, ShowsPassesKernelsAndMemory) {
  Bench bench("mlp", 4, DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); });
  step(bench.x, bench.y);
  const std::string text = step.explain();
  for (const char* what : {"schedule", "matmul_sgd", "gemm", "arena", "@fc1"})
    EXPECT_NE(text.find(what), std::string::npos) << what;
}

TEST(Profiler, WritesAChromeTrace) {
  Profiler profiler;
  Bench bench("mlp", 4, DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); });
  step.set_profiler(&profiler);
  step(bench.x, bench.y);
  EXPECT_NE(profiler.chrome_trace().find("\"linear\""), std::string::npos);
}

}  // namespace
}  // namespace starling::runtime
