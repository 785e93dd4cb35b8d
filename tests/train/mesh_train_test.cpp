// Training on meshes whose axes split parameters: it is that of one trainer, checkpoints hold whole tensors that any
// other mesh, layout and number of ranks resumes from, and layouts that cannot be are refused.
#include <gtest/gtest.h>

#include "starling/dist/strategy/programs/planned_step.h"
#include "starling/graph/tracer.h"
#include "starling/nn/attention.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/runtime/compile.h"
#include "starling/train/job/job.h"
#include "starling/zoo/zoo.h"
#include "train/pieces_testing.h"

namespace starling::train {
namespace {

using testing::expect_like;
using testing::Keep;
using testing::Outcome;
using testing::Recipe;

// Sizes of uneven_net do not divide by the ranks: pieces differ in size.
const dist::LayoutChoice kColumnsThenRows = {
    .rules = {{"fc1", "model", "columns"}, {"fc2", "model", "rows"}, {"fc3", "model", "columns"}}};
const dist::LayoutChoice kRowsThenColumns = {.rules = {{"fc1", "model", "rows"}, {"fc2", "model", "columns"}}};

struct Placed {
  const char* name;
  int ranks;
  std::vector<MeshAxis> mesh{};
  dist::LayoutChoice layout{};
  int zero = 0;
};

Recipe recipe_of(const Placed& placed) {
  return {.ranks = placed.ranks, .zero = placed.zero, .mesh = {placed.mesh}, .layout = placed.layout};
}

const Placed kAlone{"alone", 1};
const Placed kModel2{"model 2", 2, {{"model", 2}}, kColumnsThenRows};
const Placed kModel3{"model 3", 3, {{"model", 3}}, kRowsThenColumns};
const Placed kBoth{"data 2 x model 2", 4, {{"data", 2}, {"model", 2}}, kColumnsThenRows};
const Placed kModelFirst{"model 2 x data 2", 4, {{"model", 2}, {"data", 2}}, kRowsThenColumns, 1};
const Placed kZero3{"data 2 x model 2, zero 3", 4, {{"data", 2}, {"model", 2}}, kColumnsThenRows, 3};

const Placed kTrick{"one weird trick", 3, {{"data", 3}}, {.preset = "one_weird_trick"}};

TEST(MeshTraining, IsThatOfOneTrainer) {
  for (const std::int64_t accumulate : {1, 3}) {
    Recipe alone = recipe_of(kAlone);
    alone.options.accumulate = accumulate;
    alone.options.clip_norm = 0.5;
    const Outcome one = alone.run()[0];
    for (const Placed& placed : {kModel2, kModel3, kBoth, kModelFirst, kZero3, kTrick}) {
      SCOPED_TRACE(fmt::format("{}, {} batches a step", placed.name, accumulate));
      Recipe recipe = recipe_of(placed);
      recipe.options.accumulate = accumulate;
      recipe.options.clip_norm = 0.5;
      for (const Outcome& some : recipe.run()) {
        expect_like(some, one, 1e-5, 1e-4);
        EXPECT_EQ(some.metrics.at("accuracy"), one.metrics.at("accuracy"));
      }
    }
  }
}

// A dimension that two axes cut, in whatever order the rules name them: the programs' order is that of the mesh.
TEST(MeshTraining, CutsADimensionAlongTwoAxes) {
  Recipe alone = recipe_of(kAlone);
  alone.options.steps = 6;
  const Outcome one = alone.run()[0];
  const dist::LayoutChoice rows = {.rules = {{"fc1", "data", "columns"}, {"fc1", "model", "columns"}}};
  const dist::LayoutChoice back = {.rules = {{"fc1", "b", "columns"}, {"fc1", "a", "columns"}}};
  for (const Placed& placed : {Placed{"data and model", 4, {{"data", 2}, {"model", 2}}, rows},
                               Placed{"b before a", 4, {{"a", 2}, {"b", 2}}, back}}) {
    SCOPED_TRACE(placed.name);
    Recipe recipe = recipe_of(placed);
    recipe.options.steps = 6;
    for (const Outcome& some : recipe.run()) expect_like(some, one, 1e-5, 1e-4);
  }
}

// Uneven pieces have gradients of other sizes on other ranks: buckets of them would differ.
TEST(MeshTraining, UnevenPiecesAreReducedOneByOne) {
  const auto joined = [](const dist::LayoutChoice& layout) {
    int found = 0;
    const auto comms = make_thread_comms(4, {.deadline = std::chrono::seconds(60)});
    run_ranks(comms, [&](Comm& comm) {
      auto net = testing::uneven_net();
      const auto strategy = allreduce(std::shared_ptr<Comm>(&comm, [](Comm*) {}),
                                      {.mesh = {{{"data", 2}, {"model", 2}}}, .layout = layout});
      dist::TrainedState state;
      for (auto& [name, tensor] : net.named_parameters()) state.weights.push_back({name, tensor});
      optim::Adam optimizer(net.parameters(), {.lr = 0.01});
      for (auto& [name, tensor] : optimizer.state()) state.optimizer.push_back({name, tensor});
      strategy->begin(state);
      auto step = compile(
          [&](const Tensor& x) {
            Tensor loss = mean(net(x));
            loss.backward();
            optimizer.step();
            return loss;
          },
          {.threads = 1, .strategy = strategy});
      const Tensor x = full({4, 8}, 0.5);
      step.call({&x, 1}, GlobalRows{8});
      if (comm.rank() != 0) return;
      for (const graph::Node& node : step.graph().nodes())
        found += graph::is_op(node, "all_reduce_many") && graph::comm_group(node).str() == dist::kDataAxis;
    });
    return found;
  };
  EXPECT_EQ(joined(kColumnsThenRows), 0) << "33 outputs do not divide by 2";
  EXPECT_GT(joined({.rules = {{"fc3", "model", "columns"}}}), 0) << "4 outputs divide by 2: the control";
}

// Noise of dropout is a function of the place in the whole, along every axis.
TEST(MeshTraining, DrawsTheNoiseOfOneTrainer) {
  const auto net = [] {
    manual_seed(3);
    nn::Sequential made;
    made.add("fc1", nn::Linear({.in = 8, .out = 33})).add("drop", nn::Dropout(0.4)).add("relu", nn::Relu());
    made.add("fc2", nn::Linear({.in = 33, .out = 21})).add("drop2", nn::Dropout(0.3));
    made.add("fc3", nn::Linear({.in = 21, .out = 4}));
    return made;
  };
  Recipe alone = recipe_of(kAlone);
  alone.net = net;
  const Outcome one = alone.run()[0];
  for (const Placed& placed : {kModel2, kBoth}) {
    SCOPED_TRACE(placed.name);
    Recipe recipe = recipe_of(placed);
    recipe.net = net;
    expect_like(recipe.run()[1], one, 1e-5, 1e-4);
  }
}

TEST(MeshTraining, ResumesFromCheckpointsOfAnyOtherMesh) {
  const auto run = [&](const Placed& placed, const std::filesystem::path& folder, std::int64_t steps,
                       std::map<std::string, std::vector<double>>& state) {
    Recipe recipe = recipe_of(placed);
    recipe.options.folder = folder;
    recipe.options.epochs = 9;
    recipe.options.steps = steps;
    recipe.add = [&](Trainer& trainer, int) {
      trainer.add(checkpoints({.every_steps = 2}));
      trainer.add(std::make_shared<Keep>(state));
    };
    return recipe.run()[0].losses;
  };
  const testing::TestFolder folders("mesh");
  std::map<std::string, std::vector<double>> unused;
  constexpr std::int64_t kSaved = 4, kMore = 20;
  const std::vector<double> undisturbed = run(kAlone, folders.path() / "undisturbed", kSaved + kMore, unused);
  for (const Placed& from : {kAlone, kModel3, kModelFirst, kTrick}) {
    const auto folder = folders.path() / from.name;
    std::map<std::string, std::vector<double>> saved;
    run(from, folder, kSaved, saved);
    for (const Placed& to : {kAlone, kModel2, kBoth, kZero3}) {
      SCOPED_TRACE(fmt::format("{} to {}", from.name, to.name));
      const auto copy = folders.path() / fmt::format("{} to {}", from.name, to.name);
      std::filesystem::copy(folder, copy, std::filesystem::copy_options::recursive);
      std::map<std::string, std::vector<double>> loaded;
      run(to, copy, kSaved, loaded);
      EXPECT_EQ(loaded, saved);
      const std::vector<double> losses = run(to, copy, kSaved + kMore, unused);
      ASSERT_EQ(losses.size(), static_cast<std::size_t>(kMore));
      for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], undisturbed[kSaved + i], 1e-3) << i;
    }
  }
}

// Bytes that each rank stores are those of its pieces; control: without a layout those of the whole.
TEST(MeshTraining, StoresPiecesOfWhatTheLayoutSplits) {
  const auto bytes = [](const Placed& placed, const char* what) {
    Recipe recipe = recipe_of(placed);
    recipe.options.steps = 2;
    return recipe.run()[0].result.summary.ranks.at(0).counters.at(what).get<double>();
  };
  const double whole = bytes({"data 2", 2, {{"data", 2}}}, "weight_bytes");
  EXPECT_EQ(whole, 4 * (33 * 8 + 33 + 21 * 33 + 21 + 4 * 21 + 4));
  EXPECT_EQ(bytes(kModel2, "weight_bytes"), 4 * (16 * 8 + 16 + 21 * 16 + 21 + 2 * 21 + 2));
  EXPECT_EQ(bytes(kZero3, "weight_bytes"), 4 * (8 * 8 + 16 + 10 * 16 + 21 + 1 * 21 + 2));
  const double moments = bytes(kModel2, "optimizer_bytes");
  EXPECT_NEAR(moments, 2 * bytes(kModel2, "weight_bytes"), 64) << "two moments of Adam, its rate and its count";
}

std::string refusal(const std::string& distribute) {
  try {
    read_job(ConfigNode::parse("model: {name: mlp}\ndistribute: {" + distribute + "}\n", "job.yaml"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string failure(const Placed& placed) {
  try {
    recipe_of(placed).run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MeshTraining, RefusesWhatCannotBe) {
  const auto told = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << " without " << part;
  };
  EXPECT_EQ(refusal("mesh: {data: 2, model: 2}, layout: megatron"), "");
  told(refusal("workers: 3, mesh: {data: 2, model: 2}"), "axes whose sizes multiply to 3 workers");
  told(refusal("mesh: {data: 2, Model: 2}"), "the name of an axis in small letters");
  told(refusal("mesh: {data: 0}"), "expected an integer from 1");
  told(refusal("mesh: 4"), "a map of axes and their sizes");
  told(refusal("mesh: {data: 2}, layout: megatorn"), "megatron");
  told(refusal("mesh: {model: 2}, layout: {fc1: {model: colums}}"), "columns");
  told(refusal("mesh: {model: 2}, layout: {fc1: columns}"), "an axis and a layout");
  told(refusal("mesh: {model: 2}, strategy: local_sgd"), "mesh");
  told(failure({"", 2, {{"model", 2}}, {.rules = {{"fc1", "modle", "columns"}}}}), "expected an axis of the mesh");
  told(failure({"", 2, {{"model", 2}}, {.rules = {{"fc7", "model", "columns"}}}}), "matches none of 6");
  told(failure({"", 3, {{"model", 2}}, kColumnsThenRows}), "expected 2 workers");
  told(failure({"", 5, {{"model", 5}}, {.rules = {{"fc3", "model", "columns"}}}}), "at least 5 elements");
  told(failure({"", 2, {{"data", 2}}, {.preset = "megatron"}}), "a mesh with an axis beside data");
  told(refusal("mesh: {model: 2}, layout: {fc1: {}}"), "an axis and a layout");
  told(refusal("mesh: {data: 65536, model: 65536}"), "at most 65536 workers");
}

// Heads that do not divide by the ranks would be gathered: the plan of the step shows it, whatever a net calls its
// attention, and of a decoder's attention to what the encoder made, too.
TEST(MeshTraining, RefusesHeadsThatDoNotDivide) {
  const auto refusal_of = [](const graph::Graph& traced, const dist::LayoutChoice& layout) -> std::string {
    const dist::StatePlan plan({{{"model", 2}}}, layout, 0, 2);
    try {
      expect_whole_heads(plan_step(traced, plan, 0), plan);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto told = [&](std::int64_t heads, const char* name = "gpt") {
    const zoo::Recipe recipe = zoo::with(zoo::nets().small(name).net, {{"heads", heads}, {"width", 12 * heads}}).make();
    const auto net = recipe.make();
    const TensorList batch = zoo::random_batch(recipe, 2, DType::f32);
    return refusal_of(graph::trace([&](std::span<const Tensor> in) { return TensorList{zoo::loss(recipe, *net, in)}; },
                                   std::vector<Tensor>(batch.begin(), batch.end()))
                          .graph,
                      {.preset = "megatron"});
  };
  const auto across = [&](std::int64_t heads) {
    nn::MultiHeadAttention look({.width = 12 * heads, .heads = heads});
    for (auto& [name, tensor] : look.named_parameters()) tensor.set_name("look." + name);
    const std::vector<Tensor> operands{zeros({2, 5, 12 * heads}), zeros({2, 7, 12 * heads})};
    return refusal_of(
        graph::trace([&](std::span<const Tensor> in) { return TensorList{look.attend(in[0], in[1])}; }, operands).graph,
        {.rules = {{"look.*", "model", "columns"}}});
  };
  EXPECT_EQ(told(2, "transformer"), "");
  EXPECT_NE(told(3, "transformer").find("heads that model: 2 divides, got 3"), std::string::npos) << told(3);
  EXPECT_NE(told(1).find("heads that model: 2 divides, got 1"), std::string::npos) << told(1);
  EXPECT_EQ(across(2), "");
  EXPECT_NE(across(3).find("heads that model: 2 divides, got 3"), std::string::npos) << across(3);
  EXPECT_EQ(told(2), "");
  EXPECT_NE(told(3).find("expected a number of attention heads that model: 2 divides"), std::string::npos) << told(3);
}

}  // namespace
}  // namespace starling::train
