// Parameters split over axes of a mesh: P ranks train as one, on pieces of the weights.
#include <gtest/gtest.h>

#include "dist/parallel_nets.h"

namespace starling::parallel_nets {
namespace {

struct Plan {
  const char* name;
  const char* net;
  std::vector<MeshAxis> mesh;
  dist::LayoutChoice layout;
  std::int64_t zero = 0;
};
std::ostream& operator<<(std::ostream& out, const Plan& plan) { return out << plan.name; }

dist::LayoutChoice rules(std::vector<dist::LayoutRule> all) { return {.rules = std::move(all)}; }

dist::TrainedState state_of(Step& step) {
  dist::TrainedState state;
  for (auto& [name, tensor] : step.net->named_parameters()) state.weights.push_back({name, tensor});
  for (auto& [name, tensor] : step.net->named_buffers()) state.buffers.push_back({name, tensor});
  for (auto& [name, tensor] : step.opt.state()) state.optimizer.push_back({name, tensor});
  return state;
}

constexpr std::int64_t kRows = 8;

struct OnMesh {
  Found found;
  std::size_t weight_bytes = 0;
  std::map<std::string, int> calls;  // collectives of a step, by group
};

OnMesh on_mesh(Comm& comm, const Plan& plan, DType dtype) {
  OnMesh made;
  Step many({plan.net}, kRows, dtype, Norm::local);
  const auto strategy =
      allreduce(testing::borrowed(comm), {.zero = plan.zero, .mesh = {plan.mesh}, .layout = plan.layout});
  strategy->begin(state_of(many));
  TensorList own;
  for (const Tensor& field : many.batch) own.push_back(testing::rows_of_tensor(field, strategy->rows(kRows)));
  const std::span<const Tensor> fields(own.data(), own.size());
  const CompileOptions options{.threads = 1, .strategy = strategy};
  CompiledFunction gradients([&](std::span<const Tensor> in) { return many.gradients_of(in); }, options);
  made.found.gradients = gradients.call(fields, GlobalRows{kRows});
  CompiledFunction step([&](std::span<const Tensor> in) { return TensorList{many.step(in)}; }, options);
  for (int i = 0; i < 20 && dtype == DType::f32; ++i)
    made.found.losses.push_back(step.call(fields, GlobalRows{kRows})[0].item());
  if (dtype == DType::f32) {
    for (const graph::Node& node : step.graph().nodes()) {
      if (node.op->comm) ++made.calls[graph::comm_group(node).str() + " " + node.op->name];
    }
  }
  for (const auto& counter : strategy->counters()) {
    if (counter.name == "weight_bytes") made.weight_bytes = static_cast<std::size_t>(counter.value);
  }
  return made;
}

class Layouts : public ::testing::TestWithParam<Plan> {};

TEST_P(Layouts, TrainAsOneProcess) {
  const Plan& plan = GetParam();
  const int ranks = MeshShape(plan.mesh).ranks();
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Found one = alone({plan.net}, kRows, dtype);
    const auto comms = make_thread_comms(ranks, {.deadline = std::chrono::seconds(60)});
    run_ranks(comms, [&](Comm& comm) {
      const OnMesh some = on_mesh(comm, plan, dtype);
      if (comm.rank() != ranks - 1) return;
      EXPECT_LT(distance(some.found.gradients, one.gradients), dtype == DType::f64 ? 1e-12 : 1e-5);
      EXPECT_LT(losses_apart(some.found, one), 1e-3);
    });
  }
}

// Law of Megatron's layout: forward and backward, one reduction after attention and one after the dense layers of each
// of 2 blocks; beside them one of the embedded tokens and its gradient's counterpart after the head, and largest logit,
// sum of exponentials and logit of the label of the loss. Nothing is gathered. Control: the same net with outputs of
// every layer split gathers activations.
TEST(LayoutLaws, MegatronReducesTwiceForwardAndTwiceBackwardABlock) {
  const auto calls = [](const Plan& plan) {
    std::map<std::string, int> made;
    const auto comms = make_thread_comms(2, {.deadline = std::chrono::seconds(60)});
    run_ranks(comms, [&](Comm& comm) {
      const OnMesh some = on_mesh(comm, plan, DType::f32);
      if (comm.rank() == 0) made = some.calls;
    });
    return made;
  };
  const std::map<std::string, int> law = {{"model all_reduce", 2 * (2 + 2) + 2 + 3}};
  EXPECT_EQ(calls({"", "gpt", {{"model", 2}}, {.preset = "megatron"}}), law);
  EXPECT_GT(calls({"", "gpt", {{"model", 2}}, {.preset = "singa_feature"}})["model all_gather"], 0);
}

const Plan kPlans[] = {
    {"gpt_megatron_2", "gpt", {{"model", 2}}, {.preset = "megatron"}},
    {"gpt_megatron_2x2", "gpt", {{"data", 2}, {"model", 2}}, {.preset = "megatron"}},
    {"gpt_megatron_zero_3", "gpt", {{"data", 2}, {"model", 2}}, {.preset = "megatron"}, 3},
    {"gpt_rows",
     "gpt",
     {{"model", 2}},
     rules({{"block*.attend.attention.out", "model", "rows"}, {"block1.think.fc1", "model", "rows"}})},
    {"gpt_feature", "gpt", {{"model", 2}}, {.preset = "singa_feature"}},
    {"lstm_feature", "lstm", {{"model", 2}}, {.preset = "singa_feature"}},
    {"lenet_feature", "lenet", {{"model", 3}}, {.preset = "singa_feature"}},
    {"lenet_one_weird_trick", "lenet", {{"data", 2}}, {.preset = "one_weird_trick"}},
    {"lenet_one_weird_trick_3", "lenet", {{"data", 3}}, {.preset = "one_weird_trick"}},
    {"lenet_dense",
     "lenet",
     {{"data", 2}, {"model", 2}},
     rules({{"fc1", "model", "columns"}, {"fc2", "model", "rows"}})},
};
INSTANTIATE_TEST_SUITE_P(Plans, Layouts, ::testing::ValuesIn(kPlans),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace starling::parallel_nets
