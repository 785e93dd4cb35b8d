// Every network of the zoo, compiled, against the same network run op by op.
#include <gtest/gtest.h>

#include "runtime/step_testing.h"

namespace starling {
namespace {

using testing::bit_equal;
using testing::relative_l2;

constexpr std::int64_t kSeed = 7;

// The small setting of a network with its optimizer and one batch: two of the same dtype begin alike.
struct ZooStep {
  const zoo::Net& known;
  nn::Sequential net;
  optim::Sgd opt;
  zoo::Batch batch;

  ZooStep(const std::string& name, DType dtype)
      : known(zoo::find(name)),
        net(make(known, dtype)),
        opt(net.parameters(), {.lr = 0.01, .momentum = 0.9}),
        batch(zoo::random_batch(known, known.small, dtype)) {
    manual_seed(kSeed);
  }

  Tensor step(const Tensor& x, const Tensor& y) {
    Tensor loss = zoo::loss(net(x), y);
    loss.backward();
    opt.step();
    return loss;
  }

  // Gradients of all parameters and the loss, without an update.
  TensorList gradients_of(const Tensor& x, const Tensor& y) {
    const Tensor loss = zoo::loss(net(x), y);
    TensorList all = gradients({&loss, 1}, net.parameters());
    all.push_back(loss.detach());
    return all;
  }

  // Parameters and buffers: all that a step leaves behind in the network.
  std::vector<std::pair<std::string, Tensor>> state() const {
    auto all = net.named_parameters();
    for (auto& buffer : net.named_buffers()) all.push_back(buffer);
    return all;
  }

 private:
  static nn::Sequential make(const zoo::Net& known, DType dtype) {
    manual_seed(kSeed);
    nn::Sequential net = known.make(known.small.options);
    net.to(dtype);
    return net;
  }
};

class CompiledNet : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_GT(zoo::find(GetParam()).small.batch, 0)
        << GetParam() << " needs a small setting, so that it can be checked";
  }
};

void expect_gradients_close(const std::string& name, DType dtype, double tolerance) {
  ZooStep eager(name, dtype), compiled(name, dtype);
  for (ZooStep* each :
       {&eager, &compiled}) {  // away from the start, where blocks are the identity and pass no gradient
    for (int i = 0; i < 3; ++i) each->step(each->batch.x, each->batch.y);
  }
  const TensorList expected = eager.gradients_of(eager.batch.x, eager.batch.y);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return compiled.gradients_of(x, y); });
  const TensorList got = step(compiled.batch.x, compiled.batch.y);
  const auto names = eager.net.named_parameters();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(relative_l2(got[i], expected[i]), tolerance) << (i < names.size() ? names[i].first : "the loss");
}

TEST_P(CompiledNet, HasTheGradientsOfEagerInF32) { expect_gradients_close(GetParam(), DType::f32, 1e-5); }

TEST_P(CompiledNet, HasTheGradientsOfEagerInF64) { expect_gradients_close(GetParam(), DType::f64, 1e-11); }

TEST_P(CompiledNet, IsBitEqualToEagerWithAllPassesOff) {
  ZooStep eager(GetParam(), DType::f32), compiled(GetParam(), DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return compiled.step(x, y); }, {.disable = {"all"}});
  for (int i = 0; i < 3; ++i) {
    const Tensor a = eager.step(eager.batch.x, eager.batch.y);
    EXPECT_EQ(a.item(), step(compiled.batch.x, compiled.batch.y).item()) << "step " << i;
  }
  const auto a = eager.state(), b = compiled.state();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(bit_equal(a[i].second, b[i].second)) << a[i].first;
}

TEST_P(CompiledNet, FollowsEagerOverTwentySteps) {
  ZooStep eager(GetParam(), DType::f32), compiled(GetParam(), DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return compiled.step(x, y); });
  double first = 0, last = 0;
  for (int i = 0; i < 20; ++i) {
    last = eager.step(eager.batch.x, eager.batch.y).item();
    if (i == 0) first = last;
    EXPECT_NEAR(last, step(compiled.batch.x, compiled.batch.y).item(), 1e-3) << "step " << i;
  }
  EXPECT_LT(last, first) << "twenty steps on one batch learn something";
}

// In eval mode batch norm uses the statistics that training has left in its buffers.
TEST_P(CompiledNet, AnswersLikeEagerAfterTraining) {
  ZooStep eager(GetParam(), DType::f64), compiled(GetParam(), DType::f64);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return compiled.step(x, y); });
  for (int i = 0; i < 2; ++i) {
    eager.step(eager.batch.x, eager.batch.y);
    step(compiled.batch.x, compiled.batch.y);
  }
  eager.net.eval();
  compiled.net.eval();
  const NoGrad no_grad;
  auto answer = compile([&](const Tensor& x) { return compiled.net(x); });
  EXPECT_LE(relative_l2(answer(compiled.batch.x), eager.net(eager.batch.x)), 1e-10);
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& [name, net] : zoo::nets()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Zoo, CompiledNet, ::testing::ValuesIn(all_names()),
                         [](const auto& info) { return info.param; });

TEST(Zoo, PublishedNetsHaveTheirParameters) {
  const auto count = [](const char* name) {
    const zoo::Net& net = zoo::find(name);
    return net.make(zoo::published(net).options).parameter_count();
  };
  EXPECT_EQ(count("resnet18"), 11'689'512);
  EXPECT_EQ(count("resnet34"), 21'797'672);
  EXPECT_EQ(count("resnet50"), 25'557'032);
  EXPECT_EQ(count("lstm"), 10'000 * 128 + 2 * 512 * 128 + 2 * 512 + 128 * 2 + 2);
  // two embeddings, six blocks (two norms, four projections), a norm, a head without bias
  const std::int64_t w = 384, block = 2 * 2 * w + (3 * w * w + 3 * w) + (w * w + w) + (8 * w * w + 5 * w);
  EXPECT_EQ(count("gpt"), 65 * w + 256 * w + 6 * block + 2 * w + 65 * w);
}

TEST(Zoo, ABatchHasTheShapesAndRangesOfItsNetwork) {
  for (const auto& [name, net] : zoo::nets()) {
    const zoo::Batch batch = zoo::random_batch(net, net.small);
    Shape x = net.small.sample;
    x.insert(0, net.small.batch);
    EXPECT_EQ(batch.x.shape(), x) << name;
    EXPECT_EQ(batch.y.shape(), net.label_per_token ? x : Shape{net.small.batch}) << name;
    EXPECT_EQ(batch.x.dtype(), net.vocabulary > 0 ? DType::i64 : DType::f32) << name;
  }
}

}  // namespace
}  // namespace starling
