// Networks of the zoo under every layout, over two and over four ranks: they train as one process does, or the layout
// is refused, as is listed here with what is said. Deeper ones of a family are held to that list alone.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "dist/layout_nets.h"
#include "starling/dist/strategy/programs/planned_step.h"
#include "starling/graph/printer.h"
#include "starling/graph/tracer.h"

namespace starling::parallel_nets {
namespace {

// Small settings of the zoo, but for these: heads that two ranks divide, and noise where a network may have it.
const std::map<std::string, Net> kSettings = {
    {"transformer", {"transformer", {{"heads", 4}, {"dropout", 0.1}}}},
    {"mlp", {"mlp", {{"dropout", 0.2}}}},
    {"alexnet", {"alexnet", {{"dropout", 0.5}}}},
};

Net setting_of(const std::string& name) {
  static const std::vector<std::string> names = zoo::nets().names();
  const auto found = kSettings.find(name);
  if (found != kSettings.end()) return found->second;
  return {std::find(names.begin(), names.end(), name)->c_str()};
}

// All presets but singa_hybrid, which has the rules of one_weird_trick.
const std::vector<std::string> kLayouts = {"singa_batch", "fsdp", "one_weird_trick", "singa_feature", "spatial",
                                           "megatron",    "cots"};

Plan plan_of(const std::string& net, const std::string& layout, int ranks) {
  Plan plan{fmt::format("{}_{}_{}", net, layout, ranks), setting_of(net)};
  plan.layout.preset = layout;
  const bool rows = layout == "singa_batch" || layout == "fsdp" || layout == "one_weird_trick";
  if (rows)
    plan.mesh = {{"data", ranks}};
  else if (ranks == 2)
    plan.mesh = {{"data", 1}, {"model", 2}};
  else
    plan.mesh = {{"data", ranks / 2}, {"model", 2}};
  return plan;
}

struct Refusal {
  const char* layout;
  const char* said;
  std::set<std::string> nets;
};

const std::vector<Refusal>& refusals() {
  static const std::set<std::string> no_pictures = {"dbn",
                                                    "denoising_autoencoder",
                                                    "gpt",
                                                    "gpt2",
                                                    "gru",
                                                    "gru_lm",
                                                    "lstm",
                                                    "lstm_lm",
                                                    "mlp",
                                                    "rbm",
                                                    "sae_big",
                                                    "sae_small",
                                                    "seq2seq",
                                                    "speech",
                                                    "stacked_autoencoder",
                                                    "transformer",
                                                    "vae"};
  // Neither heads nor hidden units nor a vocabulary: no layer of a name that Megatron's layout knows.
  static const std::set<std::string> other_layers = {"alexnet",
                                                     "alexnet_owt",
                                                     "conv_autoencoder",
                                                     "denoising_autoencoder",
                                                     "gru",
                                                     "local_image",
                                                     "lstm",
                                                     "rbm",
                                                     "resnet101",
                                                     "resnet152",
                                                     "resnet18",
                                                     "resnet34",
                                                     "resnet50",
                                                     "resnet_small",
                                                     "stacked_autoencoder",
                                                     "vgg11",
                                                     "vgg11_bn",
                                                     "vgg13",
                                                     "vgg13_bn",
                                                     "vgg16",
                                                     "vgg16_bn",
                                                     "vgg19",
                                                     "vgg19_bn"};
  constexpr const char* kWhole =
      "[layout] expected parameters, or convolutions or pools of pictures, that {} splits along model: 2, got a "
      "network "
      "of which it leaves everything whole, so that these 2 workers would compute the same";
  static const std::vector<Refusal> all = {
      {"spatial", kWhole, no_pictures}, {"cots", kWhole, no_pictures}, {"megatron", kWhole, other_layers}};
  return all;
}

std::string expected_refusal(const std::string& net, const std::string& layout) {
  for (const Refusal& refusal : refusals()) {
    if (refusal.layout == layout && refusal.nets.contains(net)) return fmt::format(fmt::runtime(refusal.said), layout);
  }
  return "";
}

graph::Graph traced(const Plan& plan) {
  Step step(plan.net, plan.rows, DType::f32, Norm::global);
  return graph::trace([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; },
                      std::vector<Tensor>(step.batch.begin(), step.batch.end()))
      .graph;
}

// Refusal by `starling validate` and before training; empty: the layout suits the network.
std::string refusal_of(const Plan& plan) {
  try {
    const Step step(plan.net, plan.rows, DType::f32, Norm::global);
    const dist::StatePlan placed = plan.placed();
    const dist::PlannedStep planned = plan_step(traced(plan), placed, 0);
    expect_whole_heads(planned, placed);
    expect_some_split(planned, placed, plan.layout, step.net->parameters());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Programs of the first and the last rank, with the types of what they store, as text.
std::string programs_of(const Plan& plan) {
  const graph::Graph step = traced(plan);
  std::string text;
  for (const int rank : {0, plan.ranks() - 1}) text += graph::print(plan_step(step, plan.placed(), rank).local);
  return text;
}

// Where training has led to: gradients before the first step, losses, and all weights and buffers after the first
// steps.
struct Course {
  TensorList gradients;
  std::vector<double> losses;
  std::vector<std::pair<std::string, std::vector<double>>> state;
};

// Networks whose small settings make much of rounding: many batch norms of few values each, and kinks. Losses of one
// process from weights that differ by 1e-7 are more than 1e-3 apart within twenty steps; they are followed in f64.
const std::set<std::string> kSensitive = {"efficientnet_b0", "googlenet", "mobilenet_v2"};

constexpr int kFirst = 3, kSteps = 20;

// Losses of one process over twenty steps from weights that differ by as much, in proportion.
std::vector<double> losses_from_shaken(const Net& net, DType dtype, double by) {
  Step step(net, kRows, dtype, Norm::local);
  {
    const NoGrad no_grad;
    for (const Tensor& parameter : step.net->parameters())
      assign(parameter, mul(parameter, uniform(parameter.shape(), {.low = 1 - by, .high = 1 + by, .dtype = dtype})));
  }
  manual_seed(7);
  CompiledFunction once([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; }, {.threads = 1});
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) losses.push_back(once.call(step.fields())[0].item());
  return losses;
}

// The reason why losses of sensitive networks are followed in f64: in f32 rounding alone moves those of one process by
// more than layouts may. Control: those of other networks it does not.
// Label: full
TEST(SensitiveNets, MakeMuchOfRoundingInOneProcess) {
  const auto apart = [](const std::string& name, DType dtype, double by) {
    const Net net = setting_of(name);
    const auto some = losses_from_shaken(net, dtype, by), one = losses_from_shaken(net, dtype, 0);
    double worst = 0;
    for (std::size_t i = 0; i < one.size(); ++i) worst = std::max(worst, std::abs(some[i] - one[i]));
    return worst;
  };
  for (const std::string& name : kSensitive) {
    EXPECT_GT(apart(name, DType::f32, 1e-7), 1e-4) << name;
    EXPECT_LT(apart(name, DType::f64, 1e-15), 1e-5) << name;
  }
  for (const char* name : {"resnet_small", "vgg11_bn", "unet"}) EXPECT_LT(apart(name, DType::f32, 1e-7), 1e-4) << name;
}

// Mistakes show in the first steps in f64, tensor by tensor; losses are followed for longer.
int steps_of(const Net& net, DType dtype) {
  const bool wide = dtype == DType::f64, sensitive = kSensitive.contains(net.name);
  return wide == sensitive ? kSteps : kFirst;
}

template <class Call>
Course course_of(Step& step, const Net& net, DType dtype, const std::shared_ptr<dist::RankStrategy>& strategy,
                 const Call& call) {
  Course course;
  const CompileOptions options{.threads = 1, .strategy = strategy};
  CompiledFunction gradients([&](std::span<const Tensor> in) { return step.gradients_of(in); }, options);
  course.gradients = call(gradients);
  CompiledFunction once([&](std::span<const Tensor> in) { return TensorList{step.step(in)}; }, options);
  for (int i = 0; i < steps_of(net, dtype); ++i) {
    course.losses.push_back(call(once)[0].item());
    if (i + 1 != kFirst) continue;
    if (strategy) strategy->show();
    const dist::TrainedState state = state_of(step);
    for (const auto* some : {&state.weights, &state.buffers}) {
      for (const auto& [name, tensor] : *some) course.state.emplace_back(name, tensor.to_vector());
    }
    if (strategy) strategy->unshow();
  }
  return course;
}

Course by_one_process(const Net& net, DType dtype) {
  Step step(net, kRows, dtype, Norm::local);
  return course_of(step, net, dtype, nullptr, [&](CompiledFunction& f) { return f.call(step.fields()); });
}

Course by_ranks(const Plan& plan, DType dtype) {
  Course last;
  const auto comms = make_thread_comms(plan.ranks(), {.deadline = std::chrono::minutes(4)});
  run_ranks(comms, [&](Comm& comm) {
    Step step(plan.net, plan.rows, dtype, Norm::global);
    const std::shared_ptr<dist::RankStrategy> strategy =
        allreduce(testing::borrowed(comm), {.zero = plan.zero, .mesh = {plan.mesh}, .layout = plan.layout});
    strategy->begin(state_of(step));
    TensorList own;
    for (const Tensor& field : step.batch) own.push_back(testing::rows_of_tensor(field, strategy->rows(plan.rows)));
    const std::span<const Tensor> fields(own.data(), own.size());
    Course course = course_of(step, plan.net, dtype, strategy,
                              [&](CompiledFunction& f) { return f.call(fields, GlobalRows{plan.rows}); });
    if (comm.rank() == comm.size() - 1) last = std::move(course);
  });
  return last;
}

// Largest difference of a tensor's elements beside its largest element, of the tensor that differs most, and its name.
std::pair<double, std::string> furthest(const Course& some, const Course& one) {
  std::pair<double, std::string> worst{0, ""};
  for (std::size_t i = 0; i < one.state.size(); ++i) {
    const auto& [name, expected] = one.state[i];
    const auto& got = some.state[i].second;
    double apart = 0, size = 1e-2;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      apart = std::max(apart, std::abs(got.at(k) - expected[k]));
      size = std::max(size, std::abs(expected[k]));
    }
    if (apart / size > worst.first) worst = {apart / size, name};
  }
  return worst;
}

// Largest difference of the losses of the first steps.
double losses_apart(const Course& a, const Course& b, std::size_t steps = kSteps) {
  double worst = 0;
  for (std::size_t i = 0; i < std::min(b.losses.size(), steps); ++i)
    worst = std::max(worst, std::abs(a.losses.at(i) - b.losses[i]));
  return worst;
}

using Courses = std::map<DType, Course>;

Courses courses_of(const Net& net) {
  Courses courses;
  courses[DType::f64] = by_one_process(net, DType::f64);
  if (!kSensitive.contains(net.name)) courses[DType::f32] = by_one_process(net, DType::f32);
  return courses;
}

void expect_course(const Plan& plan, const Courses& one) {
  SCOPED_TRACE(plan.name);
  for (const auto& [dtype, expected] : one) {
    const Course some = by_ranks(plan, dtype);
    const bool wide = dtype == DType::f64;
    ASSERT_EQ(some.losses.size(), expected.losses.size());
    EXPECT_LE(distance(some.gradients, expected.gradients), wide ? 1e-12 : 1e-5);
    EXPECT_LE(losses_apart(some, expected), 1e-3);
    if (!wide) continue;
    EXPECT_LE(losses_apart(some, expected, kFirst), 1e-10);
    EXPECT_FALSE(expected.state.empty());
    const auto [apart, name] = furthest(some, expected);
    EXPECT_LE(apart, 1e-9) << name;
  }
}

struct Pair {
  std::string net, layout;
  int ranks;
};
inline std::ostream& operator<<(std::ostream& out, const Pair& pair) { return out << pair.net << ' ' << pair.layout; }

std::string name_of(const ::testing::TestParamInfo<Pair>& info) {
  return fmt::format("{}_{}_{}", info.param.net, info.param.layout, info.param.ranks);
}

// Networks of the layers of others that are tried, and more of them.
const std::set<std::string> kDeeper = {"resnet34", "resnet50", "resnet101", "resnet152", "vgg16_bn", "vgg19_bn"};

std::vector<Pair> all_pairs() {
  std::vector<Pair> all;
  for (const std::string& net : zoo::nets().names()) {
    if (kDeeper.contains(net)) continue;
    for (const std::string& layout : kLayouts) {
      for (const int ranks : {2, 4}) all.push_back({net, layout, ranks});
    }
  }
  return all;
}

// True if a layout before it in the list makes the same programs, and is tried itself.
bool is_that_of_another(const Pair& pair) {
  const std::string own = programs_of(plan_of(pair.net, pair.layout, pair.ranks));
  for (const std::string& layout : kLayouts) {
    if (layout == pair.layout) return false;
    const Plan other = plan_of(pair.net, layout, pair.ranks);
    if (refusal_of(other).empty() && programs_of(other) == own) return true;
  }
  return false;
}

class ZooLayouts : public ::testing::TestWithParam<Pair> {};

// Label: full
TEST_P(ZooLayouts, TrainAsOneProcessOrAreRefused) {
  const Plan plan = plan_of(GetParam().net, GetParam().layout, GetParam().ranks);
  const std::string refused = refusal_of(plan);
  EXPECT_EQ(refused, expected_refusal(GetParam().net, GetParam().layout));
  if (refused.empty() && !is_that_of_another(GetParam())) expect_course(plan, courses_of(plan.net));
}
INSTANTIATE_TEST_SUITE_P(Zoo, ZooLayouts, ::testing::ValuesIn(all_pairs()), name_of);

class FewZooLayouts : public ::testing::TestWithParam<Pair> {};

TEST_P(FewZooLayouts, TrainAsOneProcess) {
  const Plan plan = plan_of(GetParam().net, GetParam().layout, GetParam().ranks);
  EXPECT_EQ(refusal_of(plan), "");
  expect_course(plan, courses_of(plan.net));
}

// Pairs for every run of the tests, of networks that layout_test.cpp does not have.
const Pair kFew[] = {{"unet", "spatial", 2},          {"vgg11_bn", "spatial", 2}, {"conv_autoencoder", "spatial", 4},
                     {"seq2seq", "singa_feature", 2}, {"gru_lm", "megatron", 2},  {"lstm_lm", "fsdp", 2},
                     {"vae", "singa_feature", 4},     {"rbm", "fsdp", 2},         {"dbn", "singa_feature", 2},
                     {"speech", "one_weird_trick", 4}};
INSTANTIATE_TEST_SUITE_P(Zoo, FewZooLayouts, ::testing::ValuesIn(kFew), name_of);

TEST(ZooLayoutsTable, HasAllPresets) { EXPECT_EQ(kLayouts.size() + 1, dist::layout_presets().size()); }

// Label: full
TEST(ZooLayoutsTable, RefusesForDeeperNetworksWhatItRefusesForTheirFamily) {
  for (const std::string& net : kDeeper) {
    for (const std::string& layout : kLayouts)
      EXPECT_EQ(refusal_of(plan_of(net, layout, 2)), expected_refusal(net, layout)) << net << ' ' << layout;
  }
}

}  // namespace
}  // namespace starling::parallel_nets
