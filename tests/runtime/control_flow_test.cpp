#include <thread>

#include "runtime/control_testing.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/execution/instance.h"

namespace starling::runtime {
namespace {

using testing::everywhere;
using testing::message_of;
using testing::number;
using testing::numbers;

// Newton's iteration for the square root, to a tolerance.
Tensor newton(const Tensor& a, const WhileOptions& options = {}) {
  return while_loop([&](const TensorList& s) { return any(greater(abs(sub(mul(s[0], s[0]), a)), 1e-10)); },
                    [&](const TensorList& s) { return TensorList{mul(add(s[0], div(a, s[0])), 0.5)}; },
                    {add(mul(a, 0.0), 1.0)}, options)[0];
}

// How many steps Collatz's sequence takes from n to 1.
Tensor collatz(const Tensor& n) {
  return while_loop([](const TensorList& s) { return not_equal(s[0], 1); },
                    [](const TensorList& s) {
                      const Tensor even = equal(mod(s[0], 2), 0);
                      return TensorList{where(even, div(s[0], 2), add(mul(s[0], 3), 1)), add(s[1], 1)};
                    },
                    {n, mul(n, 0)})[1];
}

TEST(While, RunsAsOftenAsTheDataSays) {
  for (double a : {2.0, 9.0, 1e4}) {
    const auto root = everywhere([](std::span<const Tensor> in) { return TensorList{newton(in[0])}; }, {number(a)});
    EXPECT_NEAR(root[0].item(), std::sqrt(a), 1e-9);
  }
  for (const auto& [n, steps] : {std::pair{27.0, 111.0}, {6.0, 8.0}, {1.0, 0.0}}) {
    const auto count =
        everywhere([](std::span<const Tensor> in) { return TensorList{collatz(in[0])}; }, {number(n, DType::i64)});
    EXPECT_EQ(count[0].item(), steps) << n;
  }
}

TEST(While, OneProgramServesEveryNumberOfTrips) {
  CompiledFunction f([](std::span<const Tensor> in) { return TensorList{collatz(in[0])}; }, {});
  for (const auto& [n, steps] : {std::pair{27.0, 111.0}, {1.0, 0.0}, {7.0, 16.0}, {27.0, 111.0}}) {
    const Tensor in[] = {number(n, DType::i64)};
    EXPECT_EQ(f.call(in)[0].item(), steps);
  }
  EXPECT_EQ(f.programs(), 1u);
  EXPECT_EQ(testing::nodes_named(f.graph(), "while"), 1u);
}

TEST(While, WithNoTripGivesItsState) {
  const auto f = [](std::span<const Tensor> in) {
    return while_loop([](const TensorList& s) { return less(sum(s[0]), 0); },
                      [](const TensorList& s) {
                        return TensorList{mul(s[0], 2.0), s[0]};
                      },
                      {in[0], in[1]});
  };
  const auto got = everywhere(f, {numbers({1, 2, 3}, {3}), numbers({4, 5, 6}, {3})});
  EXPECT_EQ(got[0].to_vector(), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(got[1].to_vector(), (std::vector<double>{4, 5, 6}));
}

// Each part of the state is made from the other: no buffer may be overwritten before it has been read.
TEST(While, ExchangesItsStates) {
  const auto f = [](std::span<const Tensor> in) {
    return while_loop([](const TensorList& s) { return less(s[2], 7); },
                      [](const TensorList& s) {
                        return TensorList{s[1], s[0], add(s[2], 1)};
                      },
                      {in[0], in[1], in[2]}, {.max_trips = 9});
  };
  const auto got = everywhere(f, {numbers({1, 2}, {2}), numbers({3, 4}, {2}), number(0, DType::i32)});
  EXPECT_EQ(got[0].to_vector(), (std::vector<double>{3, 4}));
  EXPECT_EQ(got[1].to_vector(), (std::vector<double>{1, 2}));
}

TEST(While, EndsWithinItsBoundOrSaysWhichItWas) {
  for (std::int64_t bound : {20, 30}) {
    everywhere([&](std::span<const Tensor> in) { return TensorList{newton(in[0], {.max_trips = bound})}; },
               {number(9)});
  }
  const auto f = [](std::span<const Tensor> in) { return TensorList{newton(in[0], {.max_trips = 3})}; };
  const std::vector<Tensor> in{number(9)};
  const std::string expected = "[while] expected the condition to fail within max_trips = 3 trips";
  EXPECT_NE(message_of([&] { f(in); }).find(expected), std::string::npos);
  EXPECT_NE(message_of([&] { testing::interpreted(f, in); }).find(expected), std::string::npos);
  CompiledFunction compiled(f, {});
  EXPECT_NE(message_of([&] { compiled.call(in); }).find(expected), std::string::npos);
  // Exactly as many trips as there may be is not too many.
  const auto exact = [](std::span<const Tensor> x) {
    return while_loop([](const TensorList& s) { return less(s[0], 3); },
                      [](const TensorList& s) { return TensorList{add(s[0], 1.0)}; }, {x[0]}, {.max_trips = 3});
  };
  EXPECT_EQ(everywhere(exact, {number(0)})[0].item(), 3);
}

TEST(While, RefusesAStateThatChangesItsType) {
  const auto f = [](std::span<const Tensor> in) {
    return while_loop([](const TensorList& s) { return less(sum(s[0]), 9); },
                      [](const TensorList& s) {
                        return TensorList{concat({s[0], s[0]})};
                      },
                      {in[0]});
  };
  const std::vector<Tensor> in{numbers({1, 2}, {2})};
  const std::string expected = "[while] expected state 0 to stay f64[2], got f64[4] from the body";
  EXPECT_EQ(message_of([&] { f(in); }), expected);
  EXPECT_EQ(message_of([&] { graph::trace(f, in); }), expected);
  const auto flags = [](std::span<const Tensor> x) {
    return while_loop([](const TensorList& s) { return s[0]; }, [](const TensorList& s) { return s; }, {x[0]});
  };
  EXPECT_EQ(message_of([&] { graph::trace(flags, in); }), "[while] expected the condition to be one bool, got f64[2]");
}

TEST(Cond, TakesTheBranchThatThePredicateNames) {
  const auto f = [](std::span<const Tensor> in) {
    return cond(
        greater(sum(in[0]), 0),
        [&] {
          return TensorList{mul(in[0], in[1]), in[0]};
        },
        [&] {
          return TensorList{sub(in[1], in[0]), exp(in[0])};
        });
  };
  const Tensor b = numbers({5, 7}, {2});
  EXPECT_EQ(everywhere(f, {numbers({1, 2}, {2}), b})[0].to_vector(), (std::vector<double>{5, 14}));
  EXPECT_EQ(everywhere(f, {numbers({-1, -2}, {2}), b})[0].to_vector(), (std::vector<double>{6, 9}));
}

// The other branch would fail: an index out of range is an error.
TEST(Cond, RunsOnlyTheBranchTaken) {
  const Tensor table = numbers({10, 20, 30}, {3});
  const auto f = [&](std::span<const Tensor> in) {
    return cond(
        less(in[0], 3), [&] { return TensorList{take(table, in[0])}; },
        [&] { return TensorList{mul(cast(in[0], DType::f64), 0.0)}; });
  };
  EXPECT_EQ(everywhere(f, {number(1, DType::i64)})[0].item(), 20);
  EXPECT_EQ(everywhere(f, {number(7, DType::i64)})[0].item(), 0);
  const auto unguarded = [&](std::span<const Tensor> in) { return TensorList{take(table, in[0])}; };
  CompiledFunction compiled(unguarded, {});
  const Tensor seven[] = {number(7, DType::i64)};
  EXPECT_NE(message_of([&] { compiled.call(seven); }), "");
}

TEST(Cond, RefusesBranchesThatDiffer) {
  const auto f = [](std::span<const Tensor> in) {
    return cond(
        greater(sum(in[0]), 0), [&] { return TensorList{in[0]}; }, [&] { return TensorList{sum(in[0])}; });
  };
  const std::vector<Tensor> in{numbers({1, 2}, {2})};
  EXPECT_EQ(message_of([&] { graph::trace(f, in); }),
            "[cond] expected result 0 to be f64[2] in both branches, got f64[] in the other");
}

TEST(Scan, CarriesAndStacks) {
  const auto f = [](std::span<const Tensor> in) {
    auto [carry, ys] = scan(
        [](const TensorList& c, const TensorList& x) {
          const Tensor next = add(mul(c[0], 0.5), mul(x[0], x[1]));
          return std::pair{TensorList{next}, TensorList{square(next), x[1]}};
        },
        {in[0]}, {in[1], in[2]});
    carry.push_back(ys[0]);
    carry.push_back(ys[1]);
    return carry;
  };
  const auto got = everywhere(f, {numbers({1, 1}, {2}), numbers({1, 2, 3, 4, 5, 6}, {3, 2}), numbers({2, 3, 4}, {3})});
  EXPECT_EQ(to_string(got[1].shape()), "[3, 2]");
  EXPECT_EQ(got[2].to_vector(), (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(got[0].to_vector(), (std::vector<double>{25.125, 31.125}));
}

TEST(Scan, IsTheLoopWrittenOut) {
  const Tensor w = numbers({0.3, -0.2, 0.5, 0.7}, {2, 2}), u = numbers({1, 0.5, -0.5, 0.25}, {2, 2});
  const auto step = [&](const Tensor& h, const Tensor& x) { return tanh(add(matmul(h, w), matmul(x, u))); };
  const Tensor x = numbers({0.1, 0.2, -0.3, 0.4, 0.5, -0.6, 0.7, 0.8, -0.9, 1.0, 1.1, 1.2}, {3, 2, 2});
  const auto scanned = [&](std::span<const Tensor> in) {
    return scan(
               [&](const TensorList& c, const TensorList& xs) {
                 const Tensor h = step(c[0], xs[0]);
                 return std::pair{TensorList{h}, TensorList{h}};
               },
               {in[1]}, {in[0]})
        .second;
  };
  const auto got = everywhere(scanned, {x, zeros({2, 2}, DType::f64)});
  Tensor h = zeros({2, 2}, DType::f64);
  for (std::int64_t t = 0; t < 3; ++t) {
    h = step(h, select(x, 0, t));
    testing::expect_close({kernels::densify(select(got[0], 0, t))}, {h}, 1e-12, "trip");
  }
}

TEST(Control, NestsInEveryWay) {
  // A scan and a cond inside a while inside a while, all reading values of all loops around them.
  const auto f = [](std::span<const Tensor> in) {
    const Tensor& x = in[0];
    return while_loop([](const TensorList& s) { return less(s[1], 4); },
                      [&](const TensorList& outer) {
                        const TensorList inner = while_loop(
                            [&](const TensorList& s) { return less(s[1], outer[1]); },
                            [&](const TensorList& s) {
                              const auto [c, ys] = scan(
                                  [&](const TensorList& carry, const TensorList& row) {
                                    return std::pair{TensorList{add(carry[0], mul(row[0], s[0]))}, TensorList{}};
                                  },
                                  {mul(outer[0], 0.1)}, {x});
                              const Tensor next = cond(
                                  greater(c[0], s[1]), [&] { return TensorList{sin(c[0])}; },
                                  [&] { return TensorList{add(c[0], outer[0])}; })[0];
                              return TensorList{next, add(s[1], 1.0)};
                            },
                            {outer[0], mul(outer[1], 0.0)});
                        return TensorList{add(inner[0], 0.25), add(outer[1], 1.0)};
                      },
                      {sum(x), number(1)});
  };
  everywhere(f, {numbers({0.3, -0.2, 0.9}, {3})});
  everywhere(f, {numbers({-1.5, 0.4, 2.0}, {3})});
}

TEST(Control, ReadsVariablesAndCapturedTensorsAtEveryCall) {
  Tensor scale = number(2), shift = number(1);
  scale.set_name("scale");
  CompiledFunction f(
      [&](std::span<const Tensor> in) {
        return while_loop([](const TensorList& s) { return less(s[1], 3); },
                          [&](const TensorList& s) {
                            return TensorList{add(mul(s[0], scale), shift), add(s[1], 1.0)};
                          },
                          {in[0], mul(in[0], 0.0)});
      },
      {});
  const Tensor in[] = {number(1)};
  EXPECT_EQ(f.call(in)[0].item(), 15);
  copy_into(scale, number(3));
  copy_into(shift, number(0));
  EXPECT_EQ(f.call(in)[0].item(), 27);
  EXPECT_EQ(f.programs(), 1u);
}

TEST(Control, RefusesToAssignInABody) {
  Tensor counter = zeros({}, DType::f64);
  counter.set_name("counter");
  const auto f = [&](std::span<const Tensor> in) {
    return while_loop([](const TensorList& s) { return less(s[0], 3); },
                      [&](const TensorList& s) {
                        assign(counter, s[0]);
                        return TensorList{add(s[0], 1.0)};
                      },
                      {in[0]});
  };
  const std::vector<Tensor> in{number(0)};
  EXPECT_NE(message_of([&] { graph::trace(f, in); })
                .find("[while] expected a body that assigns nothing, got an assignment to "
                      "variable 'counter'"),
            std::string::npos);
}

TEST(Control, DrawsOtherNumbersInEveryTripTheSameEagerAndCompiled) {
  const auto f = [](std::span<const Tensor> in) {
    const Tensor before = uniform({2}, {.dtype = DType::f64});
    auto [c, ys] = scan(
        [&](const TensorList& carry, const TensorList&) {
          const Tensor noise =
              while_loop([](const TensorList& s) { return less(s[1], 2); },
                         [](const TensorList& s) {
                           return TensorList{add(mul(s[0], 10.0), uniform({2}, {.dtype = DType::f64})), add(s[1], 1.0)};
                         },
                         {zeros({2}, DType::f64), number(0)})[0];
          return std::pair{carry, TensorList{noise, dropout(full({8}, 1.0, DType::f64), 0.5)}};
        },
        {in[0]}, {in[1]});
    const Tensor after = cond(
        greater(sum(in[0]), 0), [] { return TensorList{uniform({2}, {.dtype = DType::f64})}; },
        [] { return TensorList{normal({2}, {.dtype = DType::f64})}; })[0];
    return TensorList{before, ys[0], ys[1], after, uniform({2}, {.dtype = DType::f64})};
  };
  const std::vector<Tensor> in{number(1), numbers({0, 0, 0}, {3})};
  const auto drawn = [&](const std::function<TensorList()>& run) {
    manual_seed(5);
    return run();
  };
  const TensorList expected = drawn([&] { return f(in); });
  CompiledFunction plain(f, {.disable = {"all"}}), full(f, {});
  testing::expect_close(drawn([&] { return testing::interpreted(f, in); }), expected, 0, "interpreted");
  testing::expect_close(drawn([&] { return plain.call(in); }), expected, 1e-15, "compiled without passes");
  testing::expect_close(drawn([&] { return full.call(in); }), expected, 1e-15, "compiled");
  std::vector<double> noise = expected[1].to_vector();
  for (const auto& other : {expected[0], expected[3], expected[4]}) {
    for (double v : other.to_vector()) noise.push_back(v);
  }
  std::sort(noise.begin(), noise.end());
  EXPECT_EQ(std::adjacent_find(noise.begin(), noise.end()), noise.end()) << "drawn twice";
}

TEST(Control, IsRefusedByNameOnDevicesWhereItDoesNotRun) {
  const std::vector<Tensor> in{number(4)};
  const auto f = [](std::span<const Tensor> x) {
    return while_loop([](const TensorList& s) { return s[0] < 9; },
                      [](const TensorList& s) { return TensorList{s[0] * 2.0}; }, {x[0]});
  };
  graph::Graph graph = graph::trace(f, in).graph;
  for (graph::NodeId id = 0; id < graph.size(); ++id) graph.node(id).device = {DeviceKind::cuda, 0};
  EXPECT_EQ(message_of([&] { Executable::build(graph, {.threads = 1}); }),
            "[while] expected a program on the CPU, where control flow runs, got one on cuda:0");
  for (graph::NodeId id = 0; id < graph.size(); ++id) graph.node(id).device = {DeviceKind::null, 0};
  EXPECT_GT(Executable::build(graph, {.threads = 1})->instructions().size(), 0u) << "shapes alone can be planned";
}

// Plans hold no memory of their own: instances over one executable run at the same time.
TEST(Control, RunsInSeveralInstancesAtOnce) {
  const auto f = [](std::span<const Tensor> in) {
    return grad_all([](std::span<const Tensor> x) {
      return sum(while_loop([&](const TensorList& s) { return sum(s[0]) < 40; },
                            [&](const TensorList& s) { return TensorList{s[0] * 1.05 + sin(x[0]) + 1.1}; }, {x[0]})[0]);
    })(in);
  };
  const std::vector<Tensor> like{zeros({5}, DType::f64)};
  const graph::Graph graph = graph::run_passes(graph::trace(f, like).graph, {}, {}).graph;
  const auto executable = Executable::build(graph, {.threads = 1});
  std::vector<std::string> wrong(3);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < wrong.size(); ++k) {
    threads.emplace_back([&, k] {
      Instance instance(executable, {});
      const Tensor x = full({5}, 0.1 * static_cast<double>(k + 1), DType::f64);
      const Tensor expected = f({&x, 1})[0], got = empty({5}, DType::f64);
      for (int run = 0; run < 50; ++run) {
        instance.run({&x, 1}, {&got, 1});
        for (std::size_t i = 0; i < 5; ++i) {
          if (std::abs(got.to_vector()[i] - expected.to_vector()[i]) > 1e-9) wrong[k] = "differs";
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& what : wrong) EXPECT_EQ(what, "");
}

}  // namespace
}  // namespace starling::runtime
