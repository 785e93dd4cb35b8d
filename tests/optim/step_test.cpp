#include "optim/optim_testing.h"
#include "runtime/step_testing.h"
#include "starling/data/formats/safetensors.h"
#include "starling/kernels/eager.h"
#include "testing/temporary_folder.h"

// Optimizers in use: compiled steps, skipping, clipping, scaling, accumulating, averaging, checkpoints.
namespace starling::testing {
namespace {

using optim::ParameterGroup;

const char* const kKinds[] = {"sgd",    "adagrad", "adadelta", "rmsprop", "adam", "adamw",
                              "adamax", "nadam",   "lamb",     "lars",    "lion"};

// Momentum where it is off by default, so that every state is used.
std::string options_of(const std::string& kind) {
  if (kind == "sgd") return "{lr: 0.05, momentum: 0.9}";
  if (kind == "rmsprop") return "{lr: 0.01, momentum: 0.5, centered: true}";
  if (kind == "adam") return "{lr: 0.01, amsgrad: true}";
  return "{lr: 0.01}";
}

// A network, a batch, and an optimizer by name.
struct Net {
  Bench bench;
  std::unique_ptr<optim::Optimizer> optimizer;

  explicit Net(const std::string& kind, const std::string& name = "mlp", DType dtype = DType::f32)
      : bench(name, 8, dtype),
        optimizer(make_optimizer(kind, options_of(kind), {ParameterGroup{.parameters = bench.net.parameters()}})) {}

  Tensor loss(const Tensor& x, const Tensor& y) { return cross_entropy(bench.net(x), y); }
  std::vector<double> weights() const {
    std::vector<double> all;
    for (const auto& p : bench.net.parameters()) {
      for (double v : p.to_vector()) all.push_back(v);
    }
    return all;
  }
};

int count_ops(const graph::Graph& graph, const std::string& op) {
  int found = 0;
  for (const auto& node : graph.nodes()) found += node.op->name == op;
  return found;
}

class EveryKind : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, EveryKind, ::testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EveryKind, TakesTheSameStepsCompiledAndAtOnce) {
  Net eager(GetParam(), "lenet", DType::f64), compiled(GetParam(), "lenet", DType::f64);
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = compiled.loss(x, y);
    loss.backward();
    compiled.optimizer->step();
    return loss;
  });
  for (int i = 0; i < 5; ++i) {
    eager.loss(eager.bench.x, eager.bench.y).backward();
    eager.optimizer->step();
    step(compiled.bench.x, compiled.bench.y);
  }
  EXPECT_LE(relative_difference(compiled.weights(), eager.weights()), 1e-9);
}

TEST_P(EveryKind, IsFusedOverAllSmallParameters) {
  Net net(GetParam(), "lenet");
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    net.loss(x, y).backward();
    net.optimizer->step();
  });
  step(net.bench.x, net.bench.y);
  int updates = 0;
  for (const auto& node : step.graph().nodes()) {
    if (node.op->name.find("_update") != std::string::npos) ++updates;
  }
  const bool by_products = std::string(GetParam()) == "sgd";  // some updates are part of matmul_sgd
  EXPECT_LE(updates, by_products ? 2 : 3) << "of " << net.bench.net.parameters().size() << " parameters";
  EXPECT_GE(updates, 1);
}

TEST_P(EveryKind, GoesOnToTheSameBitsFromItsState) {
  Net whole(GetParam()), first(GetParam());
  const auto run = [](Net& net, int steps) {
    auto step = compile([&](const Tensor& x, const Tensor& y) {
      net.loss(x, y).backward();
      net.optimizer->step();
    });
    for (int i = 0; i < steps; ++i) step(net.bench.x, net.bench.y);
  };
  whole.optimizer->set_lr(0.02);
  first.optimizer->set_lr(0.02);
  run(whole, 6);
  run(first, 3);
  Net second(GetParam());
  const TemporaryFolder folder;
  std::vector<NamedTensor> saved;
  for (const auto& [name, tensor] : first.optimizer->state()) saved.push_back({name, tensor});
  data::write_safetensors(folder / "state.safetensors", saved).value();  // refuses a name that comes twice
  const auto file = data::SafetensorsFile::open(folder / "state.safetensors").value();
  for (const auto& [name, tensor] : second.optimizer->state()) copy_into(tensor, file.tensor(name));
  EXPECT_EQ(saved.size(), second.optimizer->state().size());
  const auto from = first.bench.net.parameters(), to = second.bench.net.parameters();
  for (std::size_t i = 0; i < from.size(); ++i) copy_into(to[i], from[i]);
  run(second, 3);
  EXPECT_EQ(second.weights(), whole.weights());
  EXPECT_FLOAT_EQ(static_cast<float>(second.optimizer->lr()), 0.02f);
}

TEST_P(EveryKind, SkipsAStepWhereItIsTold) {
  for (const bool is_compiled : {false, true}) {
    Net skipping(GetParam(), "mlp", DType::f64), plain(GetParam(), "mlp", DType::f64);
    const auto one = [&](const Tensor& x, const Tensor& y, const Tensor& skip) {
      skipping.loss(x, y).backward();
      skipping.optimizer->step(skip);
    };
    auto compiled = compile(one);
    for (const bool skip : {false, true, true, false, false}) {
      const Tensor flag = from_host<bool>(std::span(&skip, 1), {});
      is_compiled ? compiled(skipping.bench.x, skipping.bench.y, flag) : one(skipping.bench.x, skipping.bench.y, flag);
      if (skip) continue;
      plain.loss(plain.bench.x, plain.bench.y).backward();
      plain.optimizer->step();
    }
    EXPECT_LE(relative_difference(skipping.weights(), plain.weights()), 1e-10) << (is_compiled ? "compiled" : "eager");
  }
}

TEST(Optimizers, RefuseWildOptionsWhenTheyAreMade) {
  const Tensor w = parameter("w", {1}, {1});
  EXPECT_THROW(optim::Adam({w}, {.beta1 = 1}), Error);
  EXPECT_THROW(optim::Adam({w}, {.lr = -1}), Error);
  EXPECT_THROW(optim::Sgd({w}, {.momentum = -0.1}), Error);
  EXPECT_THROW(optim::Lion({w}, {.weight_decay = -1}), Error);
  EXPECT_THROW(optim::Adam({w, w}), Error);
  EXPECT_THROW(optim::Adam({zeros({2})}), Error);
  EXPECT_THROW(make_optimizer("adam", "{lr: 0.1, momentum: 0.9}", {ParameterGroup{.parameters = {w}}}), Error);
}

TEST(Optimizers, RefuseToUpdateNothing) {
  const nn::Sequential empty;
  try {
    optim::Sgd nothing(empty.parameters(), {.lr = 0.1});
    FAIL() << "an optimizer without parameters was made";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "[sgd] expected parameters to update, got none; give it net.parameters() after the network's layers are "
              "added");
  }
}

// The scale is a scalar of the update, not a pass over the gradients.
TEST(Optimizers, ClipByNormInsideTheUpdate) {
  for (const char* kind : {"sgd", "adam", "lamb"}) {
    Net eager(kind), compiled(kind), unclipped(kind);
    const auto one = [](Net& net, const Tensor& x, const Tensor& y, double most) {
      net.loss(x, y).backward();
      const Tensor norm = optim::clip_gradient_norm(net.optimizer->parameters(), most);
      net.optimizer->step();
      return norm;
    };
    auto step = compile([&](const Tensor& x, const Tensor& y) { return one(compiled, x, y, 1e-3); });
    for (int i = 0; i < 3; ++i) {
      const double want = one(eager, eager.bench.x, eager.bench.y, 1e-3).item();
      EXPECT_GT(want, i == 0 ? 0.1 : 0.0);
      EXPECT_NEAR(step(compiled.bench.x, compiled.bench.y).item(), want, 1e-3 * want);
      one(unclipped, unclipped.bench.x, unclipped.bench.y, 1e9);
    }
    EXPECT_LE(relative_difference(compiled.weights(), eager.weights()), 1e-5) << kind;
    if (std::string(kind) == "sgd") {
      EXPECT_GT(relative_difference(unclipped.weights(), eager.weights()), 1e-3);
    }
    int updates = 0;
    for (const auto& node : step.graph().nodes()) {
      EXPECT_NE(node.op->name, "matmul_sgd");
      if (!node.op->name.ends_with("_update")) continue;
      ++updates;
      EXPECT_TRUE(node.attrs.get<bool>(*node.attrs.find("scaled"))) << kind;
    }
    EXPECT_GE(updates, 1) << kind;
  }
}

TEST(Optimizers, ClipByValue) {
  Tensor w = parameter("w", {0, 0, 0}, {3});
  w.set_grad(from_doubles(std::vector<double>{-3, 0.5, 7}, {3}, DType::f64));
  optim::clip_gradients({w}, 2);
  EXPECT_EQ(w.grad().to_vector(), (std::vector<double>{-2, 0.5, 2}));
}

// A hand-made step: overflows are skipped and halve the scale; enough good steps double it.
TEST(LossScaler, FindsItsScaleInsideTheCompiledStep) {
  for (const bool is_compiled : {false, true}) {
    Tensor w = parameter("w", {1, -2}, {2}, DType::f32);
    optim::Adam opt({w}, {.lr = 0.1});
    optim::LossScaler scaler({.initial = 8, .interval = 3});
    const auto one = [&](const Tensor& slope) {
      scaler.scale(sum(w * slope)).backward();
      return scaler.step(opt);
    };
    auto compiled = compile(one);
    Tensor twin = parameter("twin", {1, -2}, {2}, DType::f32);
    optim::Adam other({twin}, {.lr = 0.1});
    std::vector<double> scales, skips;
    for (const double slope : {1.0, kInfinity, 2.0, 0.5, 3.0, std::nan(""), 1.0}) {
      const Tensor given = full({2}, slope);
      skips.push_back((is_compiled ? compiled(given) : one(given)).item());
      scales.push_back(scaler.value());
      if (!std::isfinite(slope)) continue;
      twin.set_grad(full({2}, slope));
      other.step();
    }
    EXPECT_EQ(skips, (std::vector<double>{0, 1, 0, 0, 0, 1, 0}));
    EXPECT_EQ(scales, (std::vector<double>{8, 4, 4, 4, 8, 4, 4}));
    EXPECT_LE(relative_difference(w.to_vector(), twin.to_vector()), 1e-6) << is_compiled;
  }
}

TEST(LossScaler, ComesBackAfterAnyNumberOfOverflows) {
  Tensor w = parameter("w", {1, -2}, {2}, DType::f32);
  optim::Sgd opt({w}, {.lr = 1});
  optim::LossScaler scaler({.initial = 1, .backoff = 0.125, .interval = 1});
  const auto one = [&](double slope) {
    scaler.scale(sum(w * full({2}, slope))).backward();
    return scaler.step(opt).item();
  };
  for (int i = 0; i < 60; ++i) EXPECT_EQ(one(kInfinity), 1);
  EXPECT_EQ(scaler.value(), 0x1p-24);
  EXPECT_EQ(one(0.5), 0);
  EXPECT_LE(relative_difference(w.to_vector(), {0.5, -2.5}), 1e-6);
}

TEST(LossScaler, SkipsWhatOverflowsWhenTheScaleIsTakenOut) {
  Tensor w = parameter("w", {1, -2}, {2}, DType::f16);
  optim::Sgd opt({w}, {.lr = 1});
  optim::LossScaler scaler({.initial = 0.125});
  w.set_grad(full({2}, 32768, DType::f16));
  EXPECT_EQ(scaler.step(opt).item(), 1);
  EXPECT_EQ(w.to_vector(), (std::vector<double>{1, -2}));
}

TEST(LossScaler, IsClippedInBetween) {
  Tensor w = parameter("w", {1, -2}, {2}, DType::f32);
  optim::Sgd opt({w}, {.lr = 1});
  optim::LossScaler scaler({.initial = 1024});
  auto step = compile([&](const Tensor& slope) {
    scaler.scale(sum(w * slope)).backward();
    const Tensor skip = scaler.unscale(opt.parameters());
    const Tensor norm = optim::clip_gradient_norm(opt.parameters(), 1);
    opt.step(skip);
    scaler.update(skip);
    return norm;
  });
  const double slope[] = {3, 4};
  EXPECT_NEAR(step(from_doubles(slope, {2})).item(), 5, 1e-5);
  EXPECT_LE(relative_difference(w.to_vector(), {0.4, -2.8}), 1e-5);
}

TEST(Accumulation, OfMicroBatchesIsOneBatch) {
  constexpr std::int64_t kParts = 4;
  Bench big("mlp", 8, DType::f64), small("mlp", 8, DType::f64);
  optim::Adam whole(big.net.parameters(), {.lr = 0.01}), parts(small.net.parameters(), {.lr = 0.01});
  const auto loss = [&](const Tensor& x, const Tensor& y) { return cross_entropy(small.net(x), y); };
  auto add = compile([&](const Tensor& x, const Tensor& y) { optim::accumulate(loss(x, y), 1.0 / kParts); });
  auto last = compile([&](const Tensor& x, const Tensor& y) {
    optim::accumulate(loss(x, y), 1.0 / kParts);
    parts.step();
  });
  for (int step = 0; step < 3; ++step) {
    cross_entropy(big.net(big.x), big.y).backward();
    whole.step();
    for (std::int64_t i = 0; i < kParts; ++i) {
      const Tensor x = kernels::densify(narrow(small.x, 0, i * 2, 2)),
                   y = kernels::densify(narrow(small.y, 0, i * 2, 2));
      i + 1 < kParts ? add(x, y) : last(x, y);
    }
  }
  const auto a = big.net.parameters(), b = small.net.parameters();
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LE(relative_difference(b[i].to_vector(), a[i].to_vector()), 1e-9) << a[i].name();
}

TEST(Averages, AreSwappedInAndOut) {
  Tensor w = parameter("w", {1, 2}, {2});
  optim::Swa swa({w});
  swa.update();
  assign(w, from_doubles(std::vector<double>{3, 6}, {2}, DType::f64));
  swa.update();
  {
    const optim::AveragedScope averaged(swa);
    EXPECT_EQ(w.to_vector(), (std::vector<double>{2, 4}));
  }
  EXPECT_EQ(w.to_vector(), (std::vector<double>{3, 6}));
  EXPECT_EQ(swa.averages()[0].to_vector(), (std::vector<double>{2, 4}));
}

// After the optimizer's updates, and fused like them.
TEST(Averages, ArePartOfACompiledStep) {
  Net eager("adamw", "lenet", DType::f64), compiled("adamw", "lenet", DType::f64);
  optim::Ema by_hand(eager.bench.net.parameters(), 0.5), ema(compiled.bench.net.parameters(), 0.5);
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    compiled.loss(x, y).backward();
    compiled.optimizer->step();
    ema.update();
  });
  for (int i = 0; i < 4; ++i) {
    eager.loss(eager.bench.x, eager.bench.y).backward();
    eager.optimizer->step();
    by_hand.update();
    step(compiled.bench.x, compiled.bench.y);
  }
  for (std::size_t i = 0; i < ema.averages().size(); ++i)
    EXPECT_LE(relative_difference(ema.averages()[i].to_vector(), by_hand.averages()[i].to_vector()), 1e-9);
  EXPECT_LE(count_ops(step.graph(), "average_update"), 3);
}

// Clipping needs the norm of the whole gradient, not of a worker's.
TEST(Optimizers, TakeTheSameStepsOnTwoWorkers) {
  Net one("adam", "mlp", DType::f64), two("adam", "mlp", DType::f64);
  const auto step_of = [](Net& net) {
    return [&net](const Tensor& x, const Tensor& y) {
      const Tensor loss = net.loss(x, y);
      loss.backward();
      optim::clip_gradient_norm(net.optimizer->parameters(), 1e-2);
      net.optimizer->step();
      return loss;
    };
  };
  auto parallel = compile(step_of(two), {.strategy = data_parallel({.workers = 2})});
  const auto alone = step_of(one);
  for (int i = 0; i < 4; ++i) {
    const double want = alone(one.bench.x, one.bench.y).item();
    EXPECT_NEAR(parallel(two.bench.x, two.bench.y).item(), want, 1e-9 * std::abs(want));
  }
  EXPECT_LE(relative_difference(two.weights(), one.weights()), 1e-8);
}

TEST(Groups, AreMadeFromPatterns) {
  manual_seed(3);
  const auto net = zoo::nets().bench("lenet").net.make().make();
  const auto named = net->named_parameters();
  const auto groups =
      optim::make_groups(named, {{.match = "*bias", .weight_decay = 0}, {.match = "*", .lr_scale = 0.5}});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].parameters.size() + groups[1].parameters.size(), named.size());
  EXPECT_FALSE(groups[0].parameters.empty());
  for (const auto& p : groups[0].parameters) EXPECT_TRUE(p.name().ends_with("bias")) << p.name();
  EXPECT_EQ(groups[1].lr_scale, 0.5);
  EXPECT_TRUE(groups[2].parameters.empty());
  EXPECT_THROW(optim::make_groups(named, {{.match = "*bais"}}), Error);
  const auto split = optim::without_decay_of_vectors(named);
  for (const auto& p : split[1].parameters) EXPECT_LE(p.rank(), 1);
  EXPECT_EQ(split[1].weight_decay, 0.0);
  EXPECT_EQ(split[0].parameters.size() + split[1].parameters.size(), named.size());
}

TEST(Groups, PatternsMatchAsInFileNames) {
  EXPECT_TRUE(optim::matches("*.bias", "fc1.bias"));
  EXPECT_FALSE(optim::matches("*.bias", "fc1.biases"));
  EXPECT_TRUE(optim::matches("conv?.*", "conv2.weight"));
  EXPECT_TRUE(optim::matches("*a*b", "xxaxxbxab"));
  EXPECT_FALSE(optim::matches("", "x"));
  EXPECT_TRUE(optim::matches("**", ""));
}

TEST(Groups, FollowTheRate) {
  const Tensor a = parameter("a", {1}, {1}), b = parameter("b", {1}, {1});
  optim::Sgd opt({{.parameters = {a}}, {.parameters = {b}, .lr_scale = 0.1}}, {.lr = 1});
  auto step = compile([&](const Tensor& g) {
    a.set_grad(g);
    b.set_grad(g);
    opt.step();
  });
  const Tensor one = full({1}, 1, DType::f64);
  step(one);
  opt.set_lr(0.5);
  step(one);
  EXPECT_NEAR(a.item(), 1 - 1 - 0.5, 1e-6);
  EXPECT_NEAR(b.item(), 1 - 0.1 - 0.05, 1e-6);
  EXPECT_EQ(opt.lr(), 0.5);
}

}  // namespace
}  // namespace starling::testing
