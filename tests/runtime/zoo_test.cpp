// Every network of the zoo, compiled, against the same network run op by op.
#include <gtest/gtest.h>

#include "runtime/step_testing.h"

namespace starling::runtime {
namespace {

using testing::bit_equal;
using testing::relative_l2;

constexpr std::int64_t kSeed = 7;

// A small network with its optimizer and one batch; two of the same dtype start equal.
struct ZooStep {
  zoo::Sized sized;
  zoo::Recipe recipe;
  std::shared_ptr<nn::Module> net;
  optim::Sgd opt;
  TensorList batch;

  ZooStep(const std::string& name, DType dtype)
      : sized(zoo::nets().small(name)),
        recipe(sized.net.make()),
        net(make(recipe, dtype)),
        opt(net->parameters(), {.lr = 0.01, .momentum = 0.9}),
        batch(zoo::random_batch(recipe, sized.batch, dtype)) {
    manual_seed(kSeed);
  }

  std::span<const Tensor> fields() const { return {batch.data(), batch.size()}; }

  // Before each call: networks with noise draw the same numbers in both.
  static void draw(int call) { manual_seed(kSeed + call); }

  Tensor step(std::span<const Tensor> in) {
    Tensor loss = zoo::loss(recipe, *net, in);
    loss.backward();
    opt.step();
    return loss;
  }

  // Gradients of all parameters and the loss, without an update.
  TensorList gradients_of(std::span<const Tensor> in) {
    const Tensor loss = zoo::loss(recipe, *net, in);
    TensorList all = gradients({&loss, 1}, net->parameters());
    all.push_back(loss.detach());
    return all;
  }

  // Parameters and buffers: all that a step leaves behind in the network.
  std::vector<std::pair<std::string, Tensor>> state() const {
    auto all = net->named_parameters();
    for (auto& buffer : net->named_buffers()) all.push_back(buffer);
    return all;
  }

 private:
  static std::shared_ptr<nn::Module> make(const zoo::Recipe& recipe, DType dtype) {
    manual_seed(kSeed);
    auto net = recipe.make();
    net->to(dtype);
    return net;
  }
};

class CompiledNet : public ::testing::TestWithParam<std::string> {};

// The step as a compiled program over the fields of a batch.
CompiledFunction compiled_step(ZooStep& net, CompileOptions options = {}) {
  return {[&net](std::span<const Tensor> in) { return TensorList{net.step(in)}; }, std::move(options)};
}

void expect_gradients_close(const std::string& name, DType dtype, double tolerance) {
  ZooStep eager(name, dtype), compiled(name, dtype);
  for (ZooStep* each :
       {&eager, &compiled}) {  // away from the start, where blocks are the identity and pass no gradient
    for (int i = 0; i < 3; ++i) {
      ZooStep::draw(i);
      each->step(each->fields());
    }
  }
  ZooStep::draw(3);
  const TensorList expected = eager.gradients_of(eager.fields());
  CompiledFunction step([&](std::span<const Tensor> in) { return compiled.gradients_of(in); }, {});
  ZooStep::draw(3);
  const TensorList got = step.call(compiled.fields());
  const auto names = eager.net->named_parameters();
  ASSERT_EQ(got.size(), expected.size());
  // A bias before a batch norm has no gradient but rounding: what is next to nothing beside the others need not agree.
  double largest = 0;
  for (const auto& gradient : expected) largest = std::max(largest, norm(gradient).item());
  for (std::size_t i = 0; i < got.size(); ++i) {
    // Contrastive divergence is the difference of two sums of nearly the same size.
    const double cancelled = eager.recipe.objective == "contrastive_divergence" ? 10 : 1;
    const double size = cancelled * std::max(norm(expected[i]).item(), 1e-4 * largest);
    EXPECT_LE(norm(got[i] - expected[i]).item(), tolerance * size) << (i < names.size() ? names[i].first : "the loss");
  }
}

TEST_P(CompiledNet, HasTheGradientsOfEagerInF32) { expect_gradients_close(GetParam(), DType::f32, 1e-5); }

TEST_P(CompiledNet, HasTheGradientsOfEagerInF64) { expect_gradients_close(GetParam(), DType::f64, 1e-11); }

TEST_P(CompiledNet, IsBitEqualToEagerWithAllPassesOff) {
  ZooStep eager(GetParam(), DType::f32), compiled(GetParam(), DType::f32);
  auto step = compiled_step(compiled, {.disable = {"all"}});
  for (int i = 0; i < 3; ++i) {
    ZooStep::draw(i);
    const Tensor a = eager.step(eager.fields());
    ZooStep::draw(i);
    EXPECT_EQ(a.item(), step.call(compiled.fields())[0].item()) << "step " << i;
  }
  const auto a = eager.state(), b = compiled.state();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(bit_equal(a[i].second, b[i].second)) << a[i].first;
}

TEST_P(CompiledNet, FollowsEagerOverTwentySteps) {
  ZooStep eager(GetParam(), DType::f32), compiled(GetParam(), DType::f32);
  auto step = compiled_step(compiled);
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    ZooStep::draw(i);
    last = eager.step(eager.fields()).item();
    if (i == 0) first = last;
    ZooStep::draw(i);
    EXPECT_NEAR(last, step.call(compiled.fields())[0].item(), 1e-3) << "step " << i;
  }
  // The number that contrastive divergence gives says nothing of what is learnt.
  if (eager.recipe.objective != "contrastive_divergence") {
    EXPECT_LT(last, first) << "twenty steps on one batch learn something";
  }
}

// In eval mode batch norm uses the statistics that training has left in its buffers.
TEST_P(CompiledNet, AnswersLikeEagerAfterTraining) {
  ZooStep eager(GetParam(), DType::f64), compiled(GetParam(), DType::f64);
  auto step = compiled_step(compiled);
  for (int i = 0; i < 2; ++i) {
    ZooStep::draw(i);
    eager.step(eager.fields());
    ZooStep::draw(i);
    step.call(compiled.fields());
  }
  eager.net->eval();
  compiled.net->eval();
  const NoGrad no_grad;
  auto answer = compile([&](const Tensor& x) { return (*compiled.net)(x); });
  EXPECT_LE(relative_l2(answer(compiled.batch[0]), (*eager.net)(eager.batch[0])), 1e-10);
}

std::vector<std::string> all_names() { return zoo::nets().names(); }

INSTANTIATE_TEST_SUITE_P(Zoo, CompiledNet, ::testing::ValuesIn(all_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace starling::runtime
