#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "graph/passes_testing.h"
#include "runtime/step_testing.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"
#include "starling/runtime/execution/instance.h"

namespace starling::runtime {
namespace {

const Shape kShape{12, 12};

// A program of random ops on matrices with state, views and collectives in between.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    for (int i = 0; i < 2; ++i) values_.push_back(graph_.add_input({DType::f32, kShape}));
    for (int i = 0; i < 3; ++i) graph_.add_variable({"v" + std::to_string(i), {DType::f32, kShape}, {}});
    for (int i = 0; i < 3; ++i) values_.push_back(graph_.read(i));
    for (int i = 0; i < 45; ++i) append();
    for (int i = 0; i < 3; ++i) graph_.outputs.push_back(pick());
  }
  const graph::Graph& graph() const { return graph_; }

 private:
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  graph::ValueId pick() { return values_[static_cast<std::size_t>(number(static_cast<int>(values_.size())))]; }

  void apply(const char* op, std::vector<graph::ValueId> in, const Attrs& attrs = op::NoAttrs{}) {
    values_.push_back(graph_.node(graph_.add(find_op(op), in, attrs)).out[0]);
  }

  void append() {
    const OpDef& product = find_op("matmul");
    switch (number(12)) {
      case 0:
      case 1:
        apply("matmul", {pick(), pick()}, Attrs::defaults(*product.attrs));
        return apply("tanh", {values_.back()});
      case 2: return apply("add", {pick(), pick()});
      case 3: return apply("mul", {pick(), pick()});
      case 4: return apply("sub", {pick(), pick()});
      case 5: return apply("relu", {pick()});
      case 6: return apply("transpose", {pick()}, Attrs::defaults(*find_op("transpose").attrs));
      case 7: return apply("softmax", {pick()}, Attrs::defaults(*find_op("softmax").attrs));
      case 8: return apply("all_reduce", {pick()}, Attrs::defaults(*find_op("all_reduce").attrs));
      case 9: values_.push_back(graph_.read(number(3))); return;
      case 10: graph_.add(find_op("assign"), std::vector<graph::ValueId>{pick()}, op::AssignAttrs{number(3)}); return;
      default: return apply("tanh", {pick()});
    }
  }

  std::mt19937 random_;
  graph::Graph graph_;
  std::vector<graph::ValueId> values_;
};

// Outputs and variables after a few runs, with so many lanes and one thread each.
std::vector<Tensor> results(const graph::Graph& program, int branches) {
  manual_seed(3);
  Container container;
  for (const auto& variable : program.variables) container.set(variable.name, uniform(kShape, {.low = -1, .high = 1}));
  const Tensor in[] = {uniform(kShape), uniform(kShape)};
  const BuiltProgram built = build_program(program, {.program = {.threads = branches, .branches = branches}});
  Instance instance(built.executable, container);
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) out.push_back(empty(kShape, DType::f32));
  for (int run = 0; run < 3; ++run) instance.run(in, out);
  for (const auto& variable : program.variables) out.push_back(container.get(variable.name));
  return out;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data<float>(), b.data<float>(), sizeof(float) * static_cast<std::size_t>(a.numel())) == 0;
}

TEST(Branches, RandomProgramsEqualTheSerialOnesBitForBit) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const RandomProgram program(seed);
    const auto want = results(program.graph(), 1);
    for (int branches : {2, 3, 5}) {
      const auto got = results(program.graph(), branches);
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(same_bits(got[i], want[i])) << "program " << seed << ", " << branches << " branches, tensor " << i;
    }
  }
}

TEST(Branches, IndependentChainsGoToDifferentLanesAndMeet) {
  std::string text = "%x = input {shape=[64, 64]}\n%a0 = tanh(%x)\n%b0 = exp(%x)\n";
  for (int i = 1; i <= 5; ++i) text += fmt::format("%a{0} = matmul(%a{1}, %x)\n%b{0} = matmul(%b{1}, %x)\n", i, i - 1);
  const graph::Graph graph = graph::graph_of(text + "%y = add(%a5, %b5)\nreturn %y");
  const auto exe = build_program(graph, {.program = {.threads = 2, .branches = 2}}).executable;
  EXPECT_EQ(exe->threads(), 1);
  ASSERT_EQ(exe->lanes(), 3);
  EXPECT_EQ(exe->lane_size(graph::Lane::comm), 0);
  EXPECT_GE(exe->lane_size(graph::compute_lane(0)), 6);
  EXPECT_GE(exe->lane_size(graph::compute_lane(1)), 6);
  int waits = 0;
  for (const auto& instruction : exe->instructions()) waits += static_cast<int>(instruction.waits.size());
  EXPECT_EQ(waits, 1) << exe->explain();  // where the chains meet; both read the input, which is there
}

TEST(Branches, ChainsWithNothingBesideThemStayOnOneLane) {
  const graph::Graph graph = graph::graph_of(R"(%x = input {shape=[64, 64]}
%a = matmul(%x, %x)
%b = matmul(%a, %x)
%c = matmul(%b, %x)
return %c)");
  EXPECT_EQ(build_program(graph, {.program = {.threads = 2, .branches = 2}}).executable->lanes(), 1);
}

TEST(Branches, NetworksTrainAsWithoutThem) {
  testing::Bench serial("lenet", 4, DType::f32), spread("lenet", 4, DType::f32);
  auto one = compile([&](const Tensor& x, const Tensor& y) { return serial.step(x, y); }, {.threads = 1});
  auto two =
      compile([&](const Tensor& x, const Tensor& y) { return spread.step(x, y); }, {.threads = 2, .branches = 2});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one(serial.x, serial.y).item(), two(spread.x, spread.y).item()) << "step " << i;
  EXPECT_NE(two.explain().find("compute1"), std::string::npos);
}

TEST(Branches, AFailureOnOneLaneEndsTheRun) {
  graph::Graph graph = graph::graph_of(R"(%x = input {shape=[4, 4]}
%i = input {index=1, shape=[3], dtype=i64}
%a = tanh(%x)
%b = embedding(%i, %x) lane=compute1
%c = sum(%b)
%d = add(%a, %c)
return %d)");
  const auto exe = Executable::build(std::move(graph), {.threads = 1});
  Instance instance(exe, Container());
  const std::int64_t wrong[] = {0, 9, 1}, right[] = {0, 3, 1};
  const Tensor x = uniform({4, 4}), out = empty({4, 4}, DType::f32);
  const Tensor bad[] = {x, from_host<std::int64_t>(wrong, {3})}, good[] = {x, from_host<std::int64_t>(right, {3})};
  EXPECT_THROW(instance.run(bad, {&out, 1}), Error);
  instance.run(good, {&out, 1});  // and the next run is sound
}

TEST(Branches, AreBoundedInNumber) {
  const auto f = [](const Tensor& x) { return tanh(x); };
  for (int branches : {0, -1, 17}) {
    auto step = compile(f, {.disable = {}, .branches = branches});
    try {
      step(uniform({2}));
      ADD_FAILURE() << branches;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), fmt::format("[compile] expected 1 to 16 branches, got {}", branches));
    }
  }
}

}  // namespace
}  // namespace starling::runtime
