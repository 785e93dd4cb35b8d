#include "starling/runtime/session.h"

#include <thread>

#include "runtime/session_testing.h"

namespace starling::testing {
namespace {

// loss = mean((x w - t)²) and one step of gradient descent.
struct Regression {
  graph::Graph graph;
  Tensor x, t, w, hidden, loss, gradient;

  explicit Regression(double lr = 0.1) {
    GraphBuilder b;
    x = b.placeholder("x", DType::f32, {4, 3});
    t = b.placeholder("t", DType::f32, {4});
    w = b.variable("w", values({0.5, -1, 2}));
    hidden = b.name("hidden", matmul(x, reshape(w, {3, 1})));
    const Tensor error = sub(reshape(hidden, {4}), t);
    loss = b.name("loss", mean(mul(error, error)));
    gradient = b.name("gradient", b.gradients(loss, {w})[0]);
    b.assign(w, sub(w, mul(gradient, lr)), "train");
    graph = b.finish();
  }
};

const Tensor& batch_x() {
  static const Tensor x = from_doubles(std::vector<double>{1, 2, 3, -1, 0, 1, 2, 2, 2, 0, 1, -1}, {4, 3});
  return x;
}
const Tensor& batch_t() {
  static const Tensor t = values({1, 0, -1, 2});
  return t;
}

TEST(Session, ComputesWhatEagerCodeComputes) {
  const Regression r;
  Session s(r.graph);
  Tensor w = values({0.5, -1, 2});
  w.set_requires_grad();
  const Tensor error = sub(reshape(matmul(batch_x(), reshape(w, {3, 1})), {4}), batch_t());
  const Tensor loss = mean(mul(error, error));
  const Tensor gradient = gradients({&loss, 1}, {&w, 1})[0];
  const TensorList got = s.run({r.loss, "gradient"}, {{r.x, batch_x()}, {"t", batch_t()}});
  EXPECT_NEAR(got[0].item(), loss.item(), 1e-5);
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(got[1].to_vector()[static_cast<std::size_t>(i)], gradient.to_vector()[static_cast<std::size_t>(i)],
                1e-4);
}

TEST(Session, TrainsByRunningTheTarget) {
  const Regression r(0.02);
  Session s(r.graph);
  const double before = s.run({r.loss}, {{r.x, batch_x()}, {r.t, batch_t()}})[0].item();
  double loss = before;
  for (int i = 0; i < 200; ++i) {
    const double now = s.run({"loss"}, {{"x", batch_x()}, {"t", batch_t()}}, {"train"})[0].item();
    EXPECT_LE(now, loss * 1.0001) << "step " << i;
    loss = now;
  }
  EXPECT_LT(loss, before / 3);
  EXPECT_EQ(s.programs(), 2u) << "one without the target and one with it";
}

TEST(Session, FetchesAVariableAsItWasWhenTheRunBegan) {
  const Regression r;
  Session s(r.graph);
  const auto first = s.run({r.w}, {{"x", batch_x()}, {"t", batch_t()}}, {"train"})[0].to_vector();
  EXPECT_EQ(first, (std::vector<double>{0.5, -1, 2}));
  EXPECT_NE(s.run({"w"})[0].to_vector(), first);
  EXPECT_EQ(s.run({"w"})[0].to_vector(), s.container().value("w").to_vector());
}

TEST(Session, FeedsAnyEdgeInThePlaceOfWhatWouldHaveMadeIt) {
  const Regression r;
  Session s(r.graph);
  // x is not fed: what made `hidden` is not needed.
  const Tensor hidden = from_doubles(std::vector<double>{2, 0, -1, 2}, {4, 1});
  EXPECT_EQ(s.run({"loss"}, {{r.hidden, hidden}, {"t", batch_t()}})[0].item(), 0.25);
  // Other weights for this run only.
  const double zero = s.run({"loss"}, {{"x", batch_x()}, {"t", batch_t()}, {r.w, values({0, 0, 0})}})[0].item();
  EXPECT_NEAR(zero, (1 + 0 + 1 + 4) / 4.0, 1e-6);
  EXPECT_EQ(s.run({"w"})[0].to_vector(), (std::vector<double>{0.5, -1, 2}));
  // Fed edges can be fetched.
  EXPECT_EQ(s.run({r.hidden}, {{"hidden", hidden}})[0].to_vector(), hidden.to_vector());
  // The same edge twice.
  const TensorList twice = s.run({r.w, "w"});
  EXPECT_EQ(twice[0].to_vector(), twice[1].to_vector());
}

// An op that leaves a mark each time it runs: an element in a queue.
struct Marked {
  std::shared_ptr<TensorQueue> left = make_queue("left", 100), right = make_queue("right", 100);
  Tensor x, a, b, sum;
  std::unique_ptr<Session> session;

  Marked() {
    GraphBuilder g;
    x = g.placeholder("x", DType::f32, {});
    a = g.name("a", add(x, cast(enqueue("left", {x}), DType::f32)));
    b = g.name("b", add(x, cast(enqueue("right", {x}), DType::f32)));
    sum = g.name("sum", add(a, b));
    g.variable("count", one_value(0));
    g.assign(g.find("count"), add(g.find("count"), one_value(1)), "bump");
    session = std::make_unique<Session>(g.finish(), SessionOptions{.queues = {{"left", left}, {"right", right}}});
  }
};

TEST(Session, RunsOnlyWhatTheFetchesNeed) {
  Marked m;
  Session& s = *m.session;
  s.run({m.a}, {{m.x, one_value(1)}});
  EXPECT_EQ(m.left->size(), 1u);
  EXPECT_EQ(m.right->size(), 0u) << "nobody asked for b";
  s.run({m.sum}, {{m.x, one_value(1)}});
  EXPECT_EQ(m.left->size(), 2u);
  EXPECT_EQ(m.right->size(), 1u);
  s.run({m.sum}, {{m.x, one_value(1)}, {m.a, one_value(10)}});
  EXPECT_EQ(m.left->size(), 2u) << "a was fed";
  EXPECT_EQ(m.right->size(), 2u);
  EXPECT_EQ(s.run({"count"})[0].item(), 0) << "no run asked for the assign";
  s.run({}, {}, {"bump"});
  s.run({}, {{"x", one_value(1)}}, {"bump", m.b});
  EXPECT_EQ(s.run({"count"})[0].item(), 2);
  EXPECT_EQ(m.right->size(), 3u) << "an edge as a target runs the node that makes it";
  EXPECT_EQ(m.left->size(), 2u);
}

TEST(Session, RunsAnEffectOncePerRunHoweverOftenItIsFetched) {
  Marked m;
  m.session->run({m.a, m.a, "sum"}, {{m.x, one_value(1)}});
  EXPECT_EQ(m.left->size(), 1u);
  EXPECT_EQ(m.right->size(), 1u);
}

TEST(Session, SaysWhichPlaceholderIsMissingAndForWhat) {
  const Regression r;
  Session s(r.graph);
  const std::string error = error_of([&] { s.run({"loss"}, {{"x", batch_x()}}); });
  EXPECT_TRUE(holds(error, "expected placeholder 't' of f32[4] to be fed, since 'loss' needs it")) << error;
  EXPECT_TRUE(holds(error_of([&] { s.run({}, {{"t", batch_t()}}, {"train"}); }), "placeholder 'x' of f32[4, 3]"));
  EXPECT_EQ(s.programs(), 0u) << "what failed to build is not kept";
}

TEST(Session, SaysWhatWasExpectedOfAFeed) {
  const Regression r;
  Session s(r.graph);
  EXPECT_TRUE(holds(error_of([&] {
                      s.run({"loss"}, {{"x", zeros({2, 3})}, {"t", batch_t()}});
                    }),
                    "expected 'x' to be fed f32[4, 3], got f32[2, 3]"));
  EXPECT_TRUE(holds(error_of([&] {
                      s.run({"loss"}, {{"x", zeros({4, 3}, DType::f64)}, {"t", batch_t()}});
                    }),
                    "expected 'x' to be fed f32[4, 3], got f64[4, 3]"));
  EXPECT_TRUE(holds(error_of([&] {
                      s.run({"loss"}, {{"x", batch_x()}, {r.x, batch_x()}, {"t", batch_t()}});
                    }),
                    "expected each edge to be fed once, got 'x' twice"));
  EXPECT_TRUE(holds(error_of([&] { s.run({"loss"}, {{"x", r.x}}); }), "got an edge of a graph"));
  EXPECT_TRUE(holds(error_of([&] { s.run({"loss"}, {{"x", Tensor()}}); }), "got an empty handle"));
  EXPECT_TRUE(holds(error_of([&] { s.run({"los"}); }), "got 'los' (did you mean 'loss'?)"));
  EXPECT_TRUE(holds(error_of([&] { s.run({}, {}, {"trian"}); }), "did you mean 'train'?"));
  EXPECT_TRUE(holds(error_of([&] { s.run({batch_x()}); }), "got a tensor f32[4, 3] that is none"));
  const Regression other;
  EXPECT_TRUE(holds(error_of([&] { s.run({other.loss}); }), "expected an edge of this graph, got one of another"));
}

TEST(Session, KeepsABoundedNumberOfProgramsTheLatestUsed) {
  const Regression r;
  Session s(r.graph, nullptr, {.cache = 2});
  const auto feeds = {Feed{"x", batch_x()}, Feed{"t", batch_t()}};
  s.run({"loss"}, feeds);
  s.run({"hidden"}, feeds);
  EXPECT_EQ(s.programs(), 2u);
  s.run({"gradient"}, feeds);
  EXPECT_EQ(s.programs(), 2u);
  s.run({"gradient"}, {Feed{"t", batch_t()}, Feed{"x", batch_x()}});
  EXPECT_EQ(s.programs(), 2u) << "the order of feeds makes no other program";
  EXPECT_TRUE(holds(error_of([&] { Session(r.graph, nullptr, {.cache = 0}); }), "cache of 0"));
}

TEST(Session, RunsFromText) {
  const Regression r;
  const std::string text = print(r.graph);
  Session built(r.graph), read(graph::parse_graph(text));
  for (int i = 0; i < 3; ++i) {
    const TensorList a = built.run({"loss", "gradient"}, {{"x", batch_x()}, {"t", batch_t()}}, {"train"});
    const TensorList b = read.run({"loss", "gradient"}, {{"x", batch_x()}, {"t", batch_t()}}, {"train"});
    EXPECT_EQ(a[0].item(), b[0].item());
    EXPECT_EQ(a[1].to_vector(), b[1].to_vector());
  }
  EXPECT_TRUE(holds(error_of([&] { read.run({r.loss}); }), "edge of this graph"))
      << "handles belong to the built graph";
}

TEST(Session, DifferentiatesByAnyEdgeAndTwice) {
  GraphBuilder b;
  const Tensor x = b.placeholder("x", DType::f32, {});
  const Tensor square = mul(x, x);
  const Tensor y = mul(square, x);  // x³
  const TensorList first = b.gradients(y, {x, square});
  b.name("dx", first[0]);
  b.name("dsquare", first[1]);
  b.name("ddx", b.gradients(first[0], {x})[0]);
  b.name("none", b.gradients(y, {b.variable("w", one_value(1))})[0]);
  Session s(b.finish());
  const TensorList got = s.run({"dx", "dsquare", "ddx", "none"}, {{"x", one_value(3)}});
  EXPECT_FLOAT_EQ(static_cast<float>(got[0].item()), 27);
  EXPECT_FLOAT_EQ(static_cast<float>(got[1].item()), 3);
  EXPECT_FLOAT_EQ(static_cast<float>(got[2].item()), 18);
  EXPECT_EQ(got[3].item(), 0);
}

TEST(Session, ReadsAfterAnAssignWhereItIsToldTo) {
  GraphBuilder b;
  const Tensor n = b.variable("n", one_value(1));
  const Target bump = b.assign(n, add(n, one_value(1)), "bump");
  Tensor now, later;
  b.after({bump}, [&] { now = b.name("now", mul(b.read(n), one_value(1))); });
  later = b.name("later", mul(b.read(n), one_value(10)));
  Session s(b.finish());
  EXPECT_EQ(s.run({later})[0].item(), 10) << "a read alone runs no assign";
  EXPECT_EQ(s.run({now})[0].item(), 2) << "a control edge does";
  EXPECT_EQ(s.run({later, n}, {}, {bump})[0].item(), 30) << "in a run with the assign the later read sees it";
}

// Modules and optimizers of imperative code: their tensors become variables, a step becomes a target.
TEST(Session, TakesModulesAndOptimizersAsTheyAre) {
  const auto train = [](bool built) {
    manual_seed(5);
    nn::Sequential net = zoo::mlp();
    optim::Sgd opt(net.parameters(), {.lr = 0.05, .momentum = 0.9});
    const Tensor x = normal({8, 784}), y = cast(uniform({8}, {.low = 0, .high = 9.99}), DType::i64);
    std::vector<double> losses;
    if (!built) {
      for (int i = 0; i < 4; ++i) {
        const Tensor loss = cross_entropy(net(x), y);
        loss.backward();
        opt.step();
        losses.push_back(loss.item());
      }
      return losses;
    }
    GraphBuilder b;
    const Tensor in = b.placeholder("x", DType::f32, {8, 784}), labels = b.placeholder("y", DType::i64, {8});
    const Tensor loss = b.name("loss", cross_entropy(net(in), labels));
    loss.backward();
    b.updates("train", [&] { opt.step(); });
    const Tensor after = b.name("evaluation", cross_entropy(net(in), labels));
    Session s(b.finish());
    for (int i = 0; i < 4; ++i) losses.push_back(s.run({"loss"}, {{"x", x}, {"y", y}}, {"train"})[0].item());
    const auto weights = net.parameters()[0].to_vector();
    s.run({after}, {{"x", x}, {"y", y}});
    EXPECT_EQ(net.parameters()[0].to_vector(), weights) << "evaluating what was built after the step does not train";
    return losses;
  };
  const auto eager = train(false), built = train(true);
  ASSERT_EQ(eager.size(), built.size());
  for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], built[i], 1e-4);
  EXPECT_LT(built[3], built[0]);
}

TEST(Session, LetsOptimizersUpdateDeclaredVariables) {
  GraphBuilder b;
  const Tensor x = b.placeholder("x", DType::f32, {3});
  const Tensor w = b.variable("w", values({1, 2, 3}));
  optim::Sgd opt({w}, {.lr = 0.1, .momentum = 0.9});
  const Tensor loss = b.name("loss", sum(mul(mul(w, w), x)));
  loss.backward();
  b.updates("train", [&] { opt.step(); });
  Session s(b.finish());
  s.run({}, {{"x", values({1, 1, 1})}}, {"train"});
  const auto once = s.container().value("w").to_vector();
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(once[static_cast<std::size_t>(i)], 0.8 * (i + 1), 1e-6);
  s.run({}, {{"x", values({1, 1, 1})}}, {"train"});
  // v = 0.9 · 2w + 2 · 0.8w
  EXPECT_NEAR(s.container().value("w").to_vector()[0], 0.8 - 0.1 * (0.9 * 2 + 2 * 0.8), 1e-6);
}

// The gradient of an embedding is a few rows: as an edge it is whole, in an update it stays rows.
TEST(Session, HasSparseGradientsAsEdgesAndInUpdates) {
  GraphBuilder b;
  const Tensor rows = b.placeholder("rows", DType::i64, {3});
  const Tensor table = b.variable("table", full({4, 2}, 1.0));
  const Tensor loss = sum(mul(embedding(rows, table), one_value(3)));
  b.name("gradient", b.gradients(loss, {table})[0]);
  optim::Sgd opt({table}, {.lr = 0.1});
  loss.backward();
  b.updates("train", [&] { opt.step(); });
  Session s(b.finish());
  const Tensor at = from_doubles(std::vector<double>{2, 0, 2}, {3}, DType::i64);
  const Tensor g = s.run({"gradient"}, {{"rows", at}}, {"train"})[0];
  EXPECT_EQ(g.to_vector(), (std::vector<double>{3, 3, 0, 0, 6, 6, 0, 0}));
  const auto now = s.container().value("table").to_vector();
  const std::vector<double> want{0.7, 0.7, 1, 1, 0.4, 0.4, 1, 1};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(now[i], want[i], 1e-6);
}

TEST(Session, DrawsOtherNumbersOnceTheGeneratorMovesOn) {
  manual_seed(4);
  GraphBuilder b;
  const Tensor noise = b.name("noise", uniform({8}));
  b.updates("next", [] { default_generator().next_step(); });
  Session s(b.finish());
  const auto first = s.run({noise})[0].to_vector();
  EXPECT_EQ(s.run({noise})[0].to_vector(), first);
  EXPECT_EQ(s.run({noise}, {}, {"next"})[0].to_vector(), first) << "the step is taken after the numbers";
  EXPECT_NE(s.run({noise})[0].to_vector(), first);
}

TEST(Session, LeavesGradientSlotsOfModulesAsTheyWere) {
  manual_seed(1);
  nn::Sequential net = zoo::mlp();
  GraphBuilder b;
  const Tensor loss = sum(net(b.placeholder("x", DType::f32, {1, 784})));
  loss.backward();
  const Tensor weight = net.parameters()[0];
  EXPECT_TRUE(weight.grad().defined());
  b.name("gradient", weight.grad());
  Session s(b.finish());
  EXPECT_FALSE(weight.grad().defined()) << "what was built is no value of eager code";
  EXPECT_EQ(s.run({"gradient"}, {{"x", zeros({1, 784})}})[0].shape(), weight.shape());
  EXPECT_EQ(s.run({weight})[0].to_vector(), weight.to_vector()) << "and the tensor itself is a handle of its edge";
}

// Loops and branches are nodes of built graphs too, also from text, and so are their gradients.
TEST(Session, RunsControlFlow) {
  GraphBuilder b;
  const Tensor x = b.placeholder("x", DType::f32, {});
  const Tensor w = b.variable("w", one_value(2));
  const TensorList state =
      while_loop([&](const TensorList& s) { return less(s[0], one_value(100)); },
                 [&](const TensorList& s) { return TensorList{mul(s[0], w)}; }, {x}, {.max_trips = 20});
  b.name("y", state[0]);
  b.name("dx", b.gradients(state[0], {x})[0]);
  b.name("sign", cond(
                     less(x, one_value(0)), [&] { return TensorList{neg(w)}; }, [&] { return TensorList{w}; })[0]);
  const graph::Graph graph = b.finish();
  Session built(graph), read(graph::parse_graph(print(graph)));
  for (Session* s : {&built, &read}) {
    const TensorList got = s->run({"y", "dx", "sign"}, {{"x", one_value(3)}});
    EXPECT_EQ(got[0].item(), 192);
    EXPECT_EQ(got[1].item(), 64);
    EXPECT_EQ(got[2].item(), 2);
    EXPECT_EQ(s->run({"sign"}, {{"x", one_value(-3)}, {"w", one_value(5)}})[0].item(), -5);
  }
}

TEST(Session, AgreesWithAllPassesOff) {
  const Regression r;
  Session on(r.graph), off(r.graph, nullptr, {.disable = {"all"}, .reuse_memory = false});
  for (int i = 0; i < 5; ++i) {
    const double a = on.run({"loss"}, {{"x", batch_x()}, {"t", batch_t()}}, {"train"})[0].item();
    const double b = off.run({"loss"}, {{"x", batch_x()}, {"t", batch_t()}}, {"train"})[0].item();
    EXPECT_NEAR(a, b, 1e-5 * std::abs(b));
  }
}

TEST(Session, ServesSeveralThreadsAtOnce) {
  GraphBuilder b;
  const Tensor x = b.placeholder("x", DType::f32, {64});
  const Tensor w = b.variable("w", values(std::vector<double>(64, 2)));
  b.name("y", mul(add(x, w), w));
  const Tensor n = b.variable("n", one_value(0));
  b.assign(n, add(n, one_value(1)), "count");
  Session s(b.finish(), {.threads = 1});
  constexpr int kThreads = 4, kRuns = 50;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRuns; ++i) {
        const double value = t * 1000 + i;
        const auto y = s.run({"y"}, {{"x", values(std::vector<double>(64, value))}}, {"count"})[0].to_vector();
        for (double v : y) wrong += v != 2 * (value + 2);
        wrong += s.run({"n"})[0].item() < 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(s.run({"n"})[0].item(), kThreads * kRuns) << "runs that assign follow each other: none is lost";
  EXPECT_EQ(s.programs(), 2u);
}

TEST(Session, NodesBuiltBehindAnAfterDoNotRunItsTargets) {
  Tensor w = values({3});
  w.set_name("w");
  GraphBuilder b;
  const Tensor x = b.placeholder("x", DType::f32, {1});
  const Target bump = b.updates("bump", [&] { assign(w, add(w, one_value(1))); });
  b.after({bump}, [&] { b.name("bumped", mul(x, w)); });
  b.name("plain", mul(x, w));
  Session s(b.finish());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(s.run({"plain"}, {{"x", values({2})}})[0].item(), 6);
  EXPECT_EQ(s.run({"bumped"}, {{"x", values({2})}})[0].item(), 8);
}

}  // namespace
}  // namespace starling::testing
