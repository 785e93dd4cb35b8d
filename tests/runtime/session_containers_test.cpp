#include <atomic>
#include <thread>

#include "runtime/session_testing.h"
#include "starling/runtime/containers.h"

namespace starling::testing {
namespace {

graph::Graph counter(double begin = 0, double by = 1) {
  GraphBuilder b;
  const Tensor n = b.variable("n", one_value(begin));
  b.assign(n, add(n, one_value(by)), "bump");
  return b.finish();
}

TEST(Containers, AreSharedBySessionsThatSeeEachOthersUpdates) {
  Containers all;
  Session one(counter(), all.open("shared")), two(counter(100, 10), all.open("shared"));
  one.run({}, {}, {"bump"});
  EXPECT_EQ(two.run({"n"})[0].item(), 1) << "who comes first decides what it begins with";
  two.run({}, {}, {"bump"});
  EXPECT_EQ(one.run({"n"})[0].item(), 11);
  EXPECT_EQ(all.at("shared")->value("n").item(), 11);
  EXPECT_EQ(all.names(), (std::vector<std::string>{"shared"}));
}

TEST(Containers, AreResetOneByOne) {
  Containers all;
  Session a(counter(3), all.open("a")), b(counter(5), all.open("b"));
  a.run({}, {}, {"bump"});
  b.run({}, {}, {"bump"});
  all.reset("a");
  EXPECT_EQ(a.run({"n"})[0].item(), 3);
  EXPECT_EQ(b.run({"n"})[0].item(), 6);
  a.run({}, {}, {"bump"});
  EXPECT_EQ(a.run({"n"})[0].item(), 4) << "programs go on with the new values";
}

TEST(Containers, ResetToTheSameRandomNumbers) {
  manual_seed(3);
  GraphBuilder g;
  const Tensor w = g.variable("w", normal({5}));
  g.assign(w, mul(w, one_value(2)), "double");
  const std::string text = print(g.finish());
  Session s(graph::parse_graph(text)), other(graph::parse_graph(text));
  const auto first = s.run({"w"})[0].to_vector();
  EXPECT_NE(first[0], first[1]);
  s.run({}, {}, {"double"});
  EXPECT_NE(s.run({"w"})[0].to_vector(), first);
  s.container().reset();
  EXPECT_EQ(s.run({"w"})[0].to_vector(), first);
  EXPECT_EQ(other.run({"w"})[0].to_vector(), first) << "the text says which numbers";
}

TEST(Containers, ResetLiftedTensorsToWhatTheyWereWhenTheSessionBegan) {
  Tensor w = values({1, 2});
  w.set_name("w");
  GraphBuilder g;
  g.updates("double", [&] { assign(w, mul(w, one_value(2))); });
  Session s(g.finish());
  s.run({}, {}, {"double"});
  EXPECT_EQ(w.to_vector(), (std::vector<double>{2, 4})) << "it is the very tensor";
  s.container().reset();
  EXPECT_EQ(w.to_vector(), (std::vector<double>{1, 2}));
}

TEST(Containers, NameTheNearestAndRefuseOtherTypes) {
  Containers all;
  Session s(counter(), all.open("training"));
  EXPECT_TRUE(holds(error_of([&] { all.reset("trainig"); }), "got 'trainig' (did you mean 'training'?)"));
  EXPECT_TRUE(holds(error_of([&] { all.remove("x"); }), "expected one of 1 containers, got 'x'"));
  EXPECT_TRUE(holds(error_of([&] { s.container().value("m"); }), "expected a variable that exists, got 'm'"));
  EXPECT_TRUE(holds(error_of([&] { s.container().set("n", zeros({2})); }), "expected 'n' of f32[]"));
  GraphBuilder g;
  g.variable("n", values({1, 2}));
  const graph::Graph other = g.finish();
  const std::string error = error_of([&] { Session(other, all.open("training")); });
  EXPECT_TRUE(holds(error, "expected variable 'n' of f32[] as container 'training' has it, got f32[2]")) << error;
}

TEST(Containers, SupplyVariablesWithoutFirstValue) {
  GraphBuilder g;
  g.name("y", mul(g.variable("w", DType::f32, {2}), one_value(3)));
  const graph::Graph graph = g.finish();
  auto container = std::make_shared<SharedContainer>("weights");
  Session s(graph, container);
  EXPECT_TRUE(holds(error_of([&] { s.run({"y"}); }), "expected container 'weights' to hold variable 'w' of f32[2]"));
  container->set("w", values({1, 2}));
  EXPECT_EQ(s.run({"y"})[0].to_vector(), (std::vector<double>{3, 6}));
  container->set("w", values({5, 5}));
  EXPECT_EQ(s.run({"y"})[0].to_vector(), (std::vector<double>{15, 15}));
  container->reset();
  EXPECT_EQ(s.run({"y"})[0].to_vector(), (std::vector<double>{3, 6}));
}

TEST(Containers, KeepWhatSessionsUseWhenRemoved) {
  Containers all;
  Session s(counter(), all.open("a"));
  s.run({}, {}, {"bump"});
  all.remove("a");
  EXPECT_EQ(s.run({"n"})[0].item(), 1);
  EXPECT_EQ(Session(counter(), all.open("a")).run({"n"})[0].item(), 0);
}

// Every run adds one to all elements; a reset sets all to zero. Nobody may ever see a mixture.
TEST(Containers, AreResetBetweenRunsNeverWithinOne) {
  GraphBuilder g;
  const Tensor w = g.variable("w", full({4096}, 0.0));
  g.assign(w, add(w, one_value(1)), "bump");
  Containers all;
  Session s(g.finish(), all.open("w"), {.threads = 1});
  std::atomic<bool> stop{false};
  std::atomic<int> mixed{0}, runs{0};
  std::thread runner([&] {
    while (!stop) {
      const auto values = s.run({"w"}, {}, {"bump"})[0].to_vector();
      for (double v : values) mixed += v != values[0];
      ++runs;
    }
  });
  for (int i = 0; i < 50 || runs < 20; ++i) all.reset("w");
  stop = true;
  runner.join();
  EXPECT_EQ(mixed, 0);
}

}  // namespace
}  // namespace starling::testing
