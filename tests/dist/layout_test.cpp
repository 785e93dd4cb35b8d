// Parameters split over axes of a mesh: P ranks train as one, on pieces of the weights.
#include <gtest/gtest.h>

#include "dist/layout_nets.h"
#include "starling/dist/strategy/programs/planned_step.h"
#include "starling/graph/tracer.h"

namespace starling::parallel_nets {
namespace {

// Two rows are left for the last convolutions.
const Net kResnet{"resnet18", {{"image", 64}, {"width", 0.125}}};
const Net kHeads4{"gpt", {{"heads", 4}}};
const Net kDropout{"gpt", {{"dropout", 0.2}, {"attention_dropout", 0.2}}};

// Plans of which nothing may fall back, over two and over four ranks.
std::vector<Plan> plans_without_fallback() {
  std::vector<Plan> plans = backend_plans();
  plans.push_back({"gpt_megatron_4", kHeads4, {{"model", 4}}, {.preset = "megatron"}});
  plans.push_back({"gpt_dropout_megatron", kDropout, {{"model", 2}}, {.preset = "megatron"}});
  plans.push_back({"alexnet_one_weird_trick_4", {"alexnet"}, {{"data", 4}}, {.preset = "one_weird_trick"}});
  plans.push_back({"resnet18_spatial", kResnet, {{"model", 2}}, {.preset = "spatial"}});
  // Four rows are left for the last convolutions.
  const Net tall{"resnet18", {{"image", 128}, {"width", 0.125}}};
  plans.push_back({"resnet18_spatial_4", tall, {{"model", 4}}, {.preset = "spatial"}});
  for (const int ranks : {2, 4})
    plans.push_back(
        {fmt::format("local_image_cots_{}", ranks), {"local_image"}, {{"model", ranks}}, {.preset = "cots"}});
  return plans;
}

class Layouts : public ::testing::TestWithParam<Plan> {};

TEST_P(Layouts, TrainAsOneProcess) {
  const auto comms = make_thread_comms(GetParam().ranks(), {.deadline = std::chrono::seconds(60)});
  run_ranks(comms, [&](Comm& comm) { expect_like_one(comm, GetParam()); });
}

// Results of the first rank of a plan.
OnMesh on_threads(const Plan& plan) {
  OnMesh first;
  const auto comms = make_thread_comms(plan.ranks(), {.deadline = std::chrono::seconds(60)});
  run_ranks(comms, [&](Comm& comm) {
    OnMesh some = on_mesh(comm, plan, DType::f32);
    if (comm.rank() == 0) first = std::move(some);
  });
  return first;
}

// Law of Megatron's layout: forward and backward, one reduction after attention and one after the dense layers of each
// of 2 blocks; beside them one of the embedded tokens and its gradient's counterpart after the head, and largest logit,
// sum of exponentials and logit of the label of the loss. Nothing is gathered. Control: the same net with outputs of
// every layer split gathers activations.
TEST(LayoutLaws, MegatronReducesTwiceForwardAndTwiceBackwardABlock) {
  const std::map<std::string, int> law = {{"model all_reduce", 2 * (2 + 2) + 2 + 3}};
  EXPECT_EQ(on_threads({"", {"gpt"}, {{"model", 2}}, {.preset = "megatron"}}).calls, law);
  EXPECT_GT(on_threads({"", {"gpt"}, {{"model", 2}}, {.preset = "singa_feature"}}).calls["model all_gather"], 0);
}

dist::PlannedStep planned(const Plan& plan, int rank = 0) {
  Step step(plan.net, plan.rows, DType::f32, Norm::local);
  const graph::Graph traced = graph::trace([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; },
                                           std::vector<Tensor>(step.batch.begin(), step.batch.end()))
                                  .graph;
  return plan_step(traced, plan.placed(), rank);
}

std::string told(const std::vector<dist::PlannedFallback>& fallbacks) {
  std::string text;
  for (const auto& one : fallbacks)
    text += fmt::format("{} in '{}' {} along {}\n", one.op, one.scope, to_string(one.layout), one.axis);
  return text;
}

// Ops without a rule for pieces take whole operands, and that is counted. Control: convolutions have no rule for
// pieces of their weights.
TEST(LayoutLaws, NothingFallsBackToWhole) {
  for (const Plan& plan : plans_without_fallback()) EXPECT_EQ(told(planned(plan).fallbacks), "") << plan;
  EXPECT_NE(told(planned({"", {"lenet"}, {{"model", 2}}, {.preset = "singa_feature"}}).fallbacks).find("conv2d"),
            std::string::npos);
}

// Bytes of weights that the first rank of a plan stores, as memory is counted.
double stored_weights(const Plan& plan) {
  double bytes = 0;
  const auto comms = make_thread_comms(plan.ranks(), {.deadline = std::chrono::seconds(60)});
  run_ranks(comms, [&](Comm& comm) {
    Step step(plan.net, kRows, DType::f32, Norm::local);
    const auto strategy =
        allreduce(testing::borrowed(comm), {.zero = plan.zero, .mesh = {plan.mesh}, .layout = plan.layout});
    strategy->begin(state_of(step));
    for (const auto& counter : strategy->counters()) {
      if (comm.rank() == 0 && counter.name == "weight_bytes") bytes = counter.value;
    }
  });
  return bytes;
}

// Weight bytes of a rank are those of what the layout leaves whole and a share of what it splits. Control: without the
// layout they are all.
TEST(LayoutLaws, ARankStoresItsShareOfWhatTheLayoutSplits) {
  int judged = 0;
  for (const Plan& plan : plans_without_fallback()) {
    if (!plan.placed().splits_weights() || plan.zero > 0) continue;
    const Step step(plan.net, kRows, DType::f32, Norm::local);
    double split = 0, whole = 0;
    for (const Tensor& parameter : step.net->parameters()) {
      const bool cut = !plan.placed().cuts(parameter, dist::StatePlan::kWeights).empty();
      (cut ? split : whole) += 4.0 * static_cast<double>(parameter.numel());
    }
    EXPECT_LE(stored_weights(plan) - whole, 1.05 / plan.ranks() * split) << plan;
    EXPECT_GT(split, whole) << plan << ": most of the weights";
    Plan control = plan;
    control.layout = {};
    EXPECT_EQ(stored_weights(control), split + whole) << plan;
    ++judged;
  }
  EXPECT_EQ(judged, 7) << "gpt, alexnet and local_image, over two and over four ranks, and gpt with dropout";
}

// Of pictures that are split a rank has its rows: bytes of values of the forward pass, each here and in the whole.
// Control: without the layout a rank has them all.
TEST(LayoutLaws, ARankHasItsShareOfPictures) {
  for (const Plan& plan : plans_without_fallback()) {
    if (plan.layout.preset != "spatial") continue;
    const auto bytes_of_pictures = [&](const Plan& of) {
      std::pair<double, double> bytes;  // here, and whole
      for (const auto& value : planned(of).values) {
        if (value.whole.shape.rank() != 4) continue;
        bytes.first += static_cast<double>(value.here.shape.numel());
        bytes.second += static_cast<double>(value.whole.shape.numel());
      }
      return bytes;
    };
    const auto [here, whole] = bytes_of_pictures(plan);
    // The input is whole on every rank.
    EXPECT_LE(here, 1.05 / plan.ranks() * whole + whole / 10) << plan;
    Plan control = plan;
    control.layout = {};
    EXPECT_EQ(bytes_of_pictures(control).first, whole) << plan;
  }
}

// The bytes that a rank is told to send are those that move. Control: without the layout no rank sends rows.
TEST(LayoutLaws, BordersOfPicturesAreTheBytesThatAreTold) {
  const Plan plan{"resnet_small_spatial", {"resnet_small"}, {{"data", 1}, {"model", 3}}, {.preset = "spatial"}};
  Plan control = plan;
  control.layout = {};
  std::vector<std::int64_t> told(3), moved(3), without(3);
  const auto comms = make_thread_comms(plan.ranks(), {.deadline = std::chrono::seconds(60)});
  const auto sent_by = [](Comm& comm, const Plan& plan) {
    Step step(plan.net, kRows, DType::f32, Norm::local);
    const auto strategy = allreduce(testing::borrowed(comm), {.mesh = {plan.mesh}, .layout = plan.layout});
    strategy->begin(state_of(step));
    const CompileOptions options{.threads = 1, .strategy = strategy};
    CompiledFunction once([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; }, options);
    once.call(step.fields(), GlobalRows{kRows});
    return static_cast<std::int64_t>(strategy->exchanged(CommOp::send).bytes_sent);
  };
  run_ranks(comms, [&](Comm& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (const auto& one : planned(plan, comm.rank()).exchanges)
      told[rank] += one.op == "halo" || one.op == "halo_add" ? one.sent : 0;
    moved[rank] = sent_by(comm, plan);
    without[rank] = sent_by(comm, control);
  });
  EXPECT_EQ(moved, told);
  EXPECT_GT(moved[1], moved[0]) << "the rank in the middle has two borders";
  EXPECT_EQ(without, std::vector<std::int64_t>(3));
}

// A net of filters that are not shared: beside borders only what its last layer needs is exchanged, and means of single
// numbers. Control: filters that are whole on every rank get their gradients from others.
TEST(LayoutLaws, OfFiltersOfTheirOwnOnlyTheBordersCross) {
  const auto bytes = [](const char* preset) {
    std::map<std::string, std::int64_t> sent;
    for (const auto& one : planned({"", {"local_image"}, {{"model", 2}}, {.preset = preset}}).exchanges) {
      const bool border = one.op.starts_with("halo"), of_filters = one.scope.find("local") != std::string::npos;
      sent[border ? "borders" : of_filters ? "filters" : "other"] += one.sent;
    }
    return sent;
  };
  EXPECT_EQ(bytes("cots")["filters"], 0);
  EXPECT_GT(bytes("cots")["borders"], 0);
  EXPECT_GT(bytes("spatial")["filters"], 0);
}

// Bytes that a rank sends in a step, as they move: borders by messages, all else by collectives.
struct SentBytes {
  std::int64_t borders = 0, rest = 0;
};

SentBytes sent_in_a_step(Comm& comm, const Plan& plan) {
  Step step(plan.net, kRows, DType::f32, Norm::local);
  const auto strategy = allreduce(testing::borrowed(comm), {.mesh = {plan.mesh}, .layout = plan.layout});
  strategy->begin(state_of(step));
  CompiledFunction once([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; },
                        {.threads = 1, .strategy = strategy});
  SentBytes sent;
  const auto count = [&](std::int64_t sign) {
    for (const CommOp op : {CommOp::send, CommOp::all_reduce, CommOp::all_gather, CommOp::reduce_scatter,
                            CommOp::all_to_all, CommOp::broadcast}) {
      (op == CommOp::send ? sent.borders : sent.rest) +=
          sign * static_cast<std::int64_t>(strategy->exchanged(op).bytes_sent);
    }
  };
  count(-1);
  once.call(step.fields(), GlobalRows{kRows});
  count(1);
  return sent;
}

// The law of COTS by what moves: bytes of borders are those that are told, counted window by window, and all else
// together is a few per cent of the filters, of whose gradients nothing crosses. Control: filters that are whole on
// every rank have their gradients added up.
TEST(LayoutLaws, OfFiltersOfTheirOwnOnlyBordersMove) {
  const auto filters = [] {
    const Step step({"local_image"}, kRows, DType::f32, Norm::local);
    double bytes = 0;
    for (const auto& [name, tensor] : step.net->named_parameters()) {
      if (name.find("local") != std::string::npos) bytes += 4.0 * static_cast<double>(tensor.numel());
    }
    return bytes;
  }();
  for (const int ranks : {2, 4}) {
    const Plan plan{"cots", {"local_image"}, {{"model", ranks}}, {.preset = "cots"}};
    Plan control = plan;
    control.layout = {.preset = "spatial"};
    std::vector<std::int64_t> told(static_cast<std::size_t>(ranks)), moved = told;
    std::vector<double> rest(told.size()), of_control(told.size());
    const auto comms = make_thread_comms(ranks, {.deadline = std::chrono::seconds(60)});
    run_ranks(comms, [&](Comm& comm) {
      const auto rank = static_cast<std::size_t>(comm.rank());
      for (const auto& one : planned(plan, comm.rank()).exchanges)
        told[rank] += one.op.starts_with("halo") ? one.sent : 0;
      const SentBytes sent = sent_in_a_step(comm, plan);
      moved[rank] = sent.borders;
      rest[rank] = static_cast<double>(sent.rest);
      of_control[rank] = static_cast<double>(sent_in_a_step(comm, control).rest);
    });
    EXPECT_EQ(moved, told) << ranks;
    EXPECT_GT(moved[1], 0) << ranks;
    for (std::size_t rank = 0; rank < rest.size(); ++rank) {
      EXPECT_LT(rest[rank], filters / 10) << ranks << " ranks, rank " << rank;
      EXPECT_GT(of_control[rank], filters * (ranks - 1) / ranks) << ranks << " ranks, rank " << rank;
    }
  }
}

// Sums over rows in a fixed order: the same bits for any number of workers along `data`, with parameters split along
// `model`. Control: without the mode sums are those of two halves.
TEST(LayoutLaws, DeterministicModeHasOneResultForAnyDataAxis) {
  const auto losses = [](int data, bool deterministic) {
    return on_threads({"", {"gpt"}, {{"data", data}, {"model", 2}}, {.preset = "megatron"}, 0, deterministic})
        .found.losses;
  };
  EXPECT_EQ(losses(1, true), losses(2, true));
  EXPECT_NE(losses(1, false), losses(2, false));
}

// A token that no rank has in its range of the vocabulary is the error of one process.
TEST(LayoutLaws, ATokenOutOfTheVocabularyIsTheErrorOfOneProcess) {
  const auto failure = [](const Plan* plan, std::size_t field, double token) -> std::string {
    const auto train = [&](const std::shared_ptr<dist::RankStrategy>& strategy) {
      Step step({"gpt"}, kRows, DType::f32, Norm::local);
      if (strategy) strategy->begin(state_of(step));
      step.batch[field] = full(step.batch[field].shape(), token, DType::i64);
      const CompileOptions options{.threads = 1, .strategy = strategy};
      CompiledFunction once([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; }, options);
      once.call(step.fields(), GlobalRows{kRows});
    };
    try {
      if (!plan) return train(nullptr), "no error";
      const auto comms = make_thread_comms(plan->ranks(), {.deadline = std::chrono::seconds(60)});
      run_ranks(comms, [&](Comm& comm) {
        train(allreduce(testing::borrowed(comm), {.mesh = {plan->mesh}, .layout = plan->layout}));
      });
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  };
  for (const double token : {100000.0, -3.0}) {
    for (const std::size_t field : {std::size_t{0}, std::size_t{1}}) {
      const std::string one = failure(nullptr, field, token), some = failure(&backend_plans()[0], field, token);
      const std::string said = one.substr(one.find("expected"));
      EXPECT_NE(some.find(said), std::string::npos) << some << "\n" << one;
      EXPECT_NE(one.find(field == 0 ? "[embedding] expected indices in [0, " : "expected labels in [0, "),
                std::string::npos)
          << one;
    }
  }
}

const Plan kPlans[] = {
    {"gpt_megatron_2", {"gpt"}, {{"model", 2}}, {.preset = "megatron"}},
    {"gpt_megatron_2x2", {"gpt"}, {{"data", 2}, {"model", 2}}, {.preset = "megatron"}},
    {"gpt_megatron_zero_3", {"gpt"}, {{"data", 2}, {"model", 2}}, {.preset = "megatron"}, 3},
    {"gpt_megatron_deterministic", {"gpt"}, {{"data", 2}, {"model", 2}}, {.preset = "megatron"}, 0, true},
    {"gpt_megatron_4", kHeads4, {{"model", 4}}, {.preset = "megatron"}},
    {"gpt_patterns_zero_3", {"gpt"}, {{"data", 2}, {"model", 2}}, transformer_patterns(), 3},
    {"gpt_dropout_megatron_2", kDropout, {{"model", 2}}, {.preset = "megatron"}},
    {"gpt_dropout_megatron_2x2", kDropout, {{"data", 2}, {"model", 2}}, {.preset = "megatron"}},
    {"gpt_rows",
     {"gpt"},
     {{"model", 2}},
     rules({{"block*.attend.attention.out", "model", "rows"}, {"block1.think.fc1", "model", "rows"}})},
    {"gpt_feature", {"gpt"}, {{"model", 2}}, {.preset = "singa_feature"}},
    {"gpt_fsdp", {"gpt"}, {{"data", 2}}, {.preset = "fsdp"}},
    {"tied_gpt_megatron", {"gpt2"}, {{"model", 2}}, {.preset = "megatron"}},
    {"tied_gpt_megatron_2x2", {"gpt2"}, {{"data", 2}, {"model", 2}}, {.preset = "megatron"}},
    {"transformer_megatron", {"transformer"}, {{"model", 2}}, {.preset = "megatron"}},
    {"transformer_megatron_2x2", {"transformer"}, {{"data", 2}, {"model", 2}}, {.preset = "megatron"}},
    {"lstm_feature", {"lstm"}, {{"model", 2}}, {.preset = "singa_feature"}},
    {"lstm_feature_3", {"lstm"}, {{"model", 3}}, {.preset = "singa_feature"}},
    {"mlp_feature_4", {"mlp"}, {{"model", 4}}, {.preset = "singa_feature"}},
    {"mlp_hybrid", {"mlp"}, {{"data", 2}}, {.preset = "singa_hybrid"}},
    {"autoencoder_feature", {"sae_small"}, {{"data", 2}, {"model", 2}}, {.preset = "singa_feature"}},
    {"lenet_feature", {"lenet"}, {{"model", 3}}, {.preset = "singa_feature"}},
    {"lenet_one_weird_trick", {"lenet"}, {{"data", 2}}, {.preset = "one_weird_trick"}},
    {"lenet_one_weird_trick_3", {"lenet"}, {{"data", 3}}, {.preset = "one_weird_trick"}},
    {"lenet_spatial_2", {"lenet"}, {{"model", 2}}, {.preset = "spatial"}},
    {"lenet_spatial_3", {"lenet"}, {{"model", 3}}, {.preset = "spatial"}},
    {"lenet_spatial_4", {"lenet"}, {{"data", 1}, {"model", 4}}, {.preset = "spatial"}},
    {"lenet_spatial_and_columns",
     {"lenet"},
     {{"data", 2}, {"model", 2}},
     rules({{"input", "model", "height"}, {"fc1", "model", "columns"}, {"fc2", "model", "rows"}})},
    {"lenet_spatial_zero_3", {"lenet"}, {{"data", 2}, {"model", 2}}, {.preset = "spatial"}, 3},
    {"lenet_spatial_deterministic", {"lenet"}, {{"data", 2}, {"model", 2}}, {.preset = "spatial"}, 0, true},
    {"resnet18_spatial", kResnet, {{"model", 2}}, {.preset = "spatial"}},
    {"resnet_small_spatial_3", {"resnet_small"}, {{"model", 3}}, {.preset = "spatial"}},
    {"resnet_small_spatial_2x2", {"resnet_small"}, {{"data", 2}, {"model", 2}}, {.preset = "spatial"}},
    {"local_image_cots", {"local_image"}, {{"model", 2}}, {.preset = "cots"}},
    {"local_image_spatial", {"local_image"}, {{"model", 3}}, {.preset = "spatial"}},
    {"lenet_batch", {"lenet"}, {{"data", 2}}, {.preset = "singa_batch"}},
    {"alexnet_one_weird_trick", {"alexnet"}, {{"data", 2}}, {.preset = "one_weird_trick"}},
    {"lenet_dense",
     {"lenet"},
     {{"data", 2}, {"model", 2}},
     rules({{"fc1", "model", "columns"}, {"fc2", "model", "rows"}})},
};
INSTANTIATE_TEST_SUITE_P(Plans, Layouts, ::testing::ValuesIn(kPlans), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace starling::parallel_nets
