// Plans of layouts for small networks of the zoo, for comparing ranks that share parameters with one process.
#pragma once

#include "dist/parallel_nets.h"
#include "starling/dist/mesh/layout_choice.h"
#include "starling/dist/strategy/state/state_plan.h"

namespace starling::parallel_nets {

constexpr std::int64_t kRows = 8, kShards = 2;  // logical shards of the deterministic mode

struct Plan {
  std::string name;
  Net net;
  std::vector<MeshAxis> mesh{};
  dist::LayoutChoice layout{};
  std::int64_t zero = 0;
  bool deterministic = false;
  std::int64_t rows = kRows;

  int ranks() const { return MeshShape(mesh).ranks(); }
  dist::StatePlan placed() const { return {{mesh}, layout, zero, ranks()}; }
};
inline std::ostream& operator<<(std::ostream& out, const Plan& plan) { return out << plan.name; }

inline dist::LayoutChoice rules(std::vector<dist::LayoutRule> all) { return {.rules = std::move(all)}; }

inline dist::TrainedState state_of(Step& step) {
  dist::TrainedState state;
  for (auto& [name, tensor] : step.net->named_parameters()) state.weights.push_back({name, tensor});
  for (auto& [name, tensor] : step.net->named_buffers()) state.buffers.push_back({name, tensor});
  for (auto& [name, tensor] : step.opt.state()) state.optimizer.push_back({name, tensor});
  return state;
}

struct OnMesh {
  Found found;
  std::size_t weight_bytes = 0;
  std::map<std::string, int> calls;  // collectives of a step, by group
};

// One rank of a plan: gradients, and for f32 also losses of twenty steps.
inline OnMesh on_mesh(Comm& comm, const Plan& plan, DType dtype) {
  OnMesh made;
  Step many(plan.net, plan.rows, dtype, Norm::global);
  const auto strategy = allreduce(testing::borrowed(comm), {.deterministic = plan.deterministic,
                                                            .shards = kShards,
                                                            .zero = plan.zero,
                                                            .mesh = {plan.mesh},
                                                            .layout = plan.layout});
  strategy->begin(state_of(many));
  TensorList own;
  for (const Tensor& field : many.batch) own.push_back(testing::rows_of_tensor(field, strategy->rows(plan.rows)));
  const std::span<const Tensor> fields(own.data(), own.size());
  const CompileOptions options{.threads = 1, .strategy = strategy};
  CompiledFunction gradients([&](std::span<const Tensor> in) { return many.gradients_of(in); }, options);
  made.found.gradients = gradients.call(fields, GlobalRows{plan.rows});
  CompiledFunction step([&](std::span<const Tensor> in) { return TensorList{many.step(in)}; }, options);
  for (int i = 0; i < 20 && dtype == DType::f32; ++i)
    made.found.losses.push_back(step.call(fields, GlobalRows{plan.rows})[0].item());
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

// Compares the ranks of a plan with one process; the last rank judges.
inline void expect_like_one(Comm& comm, const Plan& plan) {
  SCOPED_TRACE(plan.name);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const OnMesh some = on_mesh(comm, plan, dtype);
    if (comm.rank() != comm.size() - 1) continue;
    const Found one = alone(plan.net, plan.rows, dtype);
    EXPECT_LT(distance(some.found.gradients, one.gradients), dtype == DType::f64 ? 1e-12 : 1e-5) << plan;
    EXPECT_LT(losses_apart(some.found, one), 1e-3) << plan;
  }
}

// The layout of a transformer pattern by pattern, as a job may write it.
inline dist::LayoutChoice transformer_patterns() {
  return rules({{"block*.attend.attention.qkv", "model", "columns"},
                {"block*.attend.attention.out", "model", "rows"},
                {"block*.think.fc1", "model", "columns"},
                {"block*.think.fc2", "model", "rows"},
                {"embed.token", "model", "vocabulary"}});
}

// Plans that are tried over every backend.
inline std::vector<Plan> backend_plans() {
  return {{"gpt_megatron", {"gpt"}, {{"data", 1}, {"model", 2}}, {.preset = "megatron"}},
          {"alexnet_one_weird_trick", {"alexnet"}, {{"data", 2}}, {.preset = "one_weird_trick"}},
          {"gpt_megatron_zero", {"gpt"}, {{"data", 2}, {"model", 2}}, {.preset = "megatron"}, 3},
          {"lenet_spatial", {"lenet"}, {{"model", 2}}, {.preset = "spatial"}}};
}

}  // namespace starling::parallel_nets
