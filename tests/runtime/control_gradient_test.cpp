#include "runtime/control_testing.h"
#include "starling/graph/control/control_apply.h"

namespace starling::runtime {
namespace {

using testing::check_gradient;
using testing::everywhere;
using testing::Loss;
using testing::message_of;
using testing::number;
using testing::numbers;

// The outer loop ends by the value it carries, the inner one by the outer value and its own; both read w.
Tensor nested(const Tensor& x, const Tensor& w, const WhileOptions& options) {
  const TensorList end = while_loop(
      [](const TensorList& s) { return sum(s[0]) < 6; },
      [&](const TensorList& outer) {
        const TensorList inner = while_loop([&](const TensorList& s) { return sum(square(s[0])) < 2.0 + s[1]; },
                                            [&](const TensorList& s) {
                                              return TensorList{s[0] * 1.3 + tanh(outer[0] * w) * 0.2, s[1] * 0.9};
                                            },
                                            {mul(sin(outer[0]), 0.5), sum(outer[0])}, options);
        return TensorList{outer[0] + abs(inner[0]) * 0.4 + 0.3, outer[1] + inner[1] * sum(w)};
      },
      {x, sum(x) * 0.0}, options);
  return sum(end[0] * end[0]) + end[1];
}

TEST(ControlGradient, OfANestedWhileWithTripsThatDependOnData) {
  const Tensor w = numbers({0.7, -0.4, 1.1}, {3});
  for (std::int64_t max_trips : {0, 40}) {
    for (const Tensor& x : {numbers({0.2, 0.5, 0.1}, {3}), numbers({1.2, -0.3, 0.8}, {3}), numbers({3, 2, 4}, {3})}) {
      check_gradient([&](std::span<const Tensor> in) { return nested(in[0], in[1], {.max_trips = max_trips}); },
                     {x, w});
    }
  }
}

TEST(ControlGradient, GoesThroughDifferentNumbersOfTripsInOneProgram) {
  const auto gradient = grad_all([](std::span<const Tensor> in) { return nested(in[0], in[1], {}); });
  CompiledFunction f([&](std::span<const Tensor> in) { return gradient(in); }, {});
  const Tensor w = numbers({0.7, -0.4, 1.1}, {3});
  for (double scale : {0.1, 1.0, 5.0, 0.02}) {
    const Tensor in[] = {numbers({0.2 * scale, 0.5 * scale, 0.1 * scale}, {3}), w};
    testing::expect_close(f.call(in), gradient(in), 1e-11, "compiled");
  }
  EXPECT_EQ(f.programs(), 1u);
}

// A loop of hundreds of trips: more than the first blocks of the stack of states hold.
TEST(ControlGradient, OfManyTrips) {
  const auto f = [](std::span<const Tensor> in) {
    return sum(while_loop([&](const TensorList& s) { return s[1] < in[1]; },
                          [&](const TensorList& s) {
                            return TensorList{s[0] + sin(s[0] * in[0]) * 0.01, s[1] + 1.0};
                          },
                          {in[0] * 2.0, in[1] * 0.0})[0]);
  };
  const auto gradient = grad_all([&](std::span<const Tensor> in) {
    const Tensor both[] = {in[0], number(700)};
    return f(both);
  });
  everywhere([&](std::span<const Tensor> in) { return gradient(in); }, {numbers({0.3, 1.4}, {2})}, 1e-10);
}

TEST(ControlGradient, OfBothBranchesOfCond) {
  const auto f = [](std::span<const Tensor> in) {
    return cond(
        sum(in[0]) > 0, [&] { return TensorList{sum(in[0] * in[1])}; },
        [&] { return TensorList{sum(exp(in[0])) + sum(in[0])}; })[0];
  };
  check_gradient(f, {numbers({1, 2}, {2}), numbers({0.5, -3}, {2})});
  check_gradient(f, {numbers({-1, -2}, {2}), numbers({0.5, -3}, {2})});
}

TEST(ControlGradient, OfCondInsideWhileInsideScan) {
  const auto f = [](std::span<const Tensor> in) {
    const auto [carry, ys] = scan(
        [&](const TensorList& c, const TensorList& x) {
          const Tensor h = while_loop([&](const TensorList& s) { return sum(abs(s[0])) < 3; },
                                      [&](const TensorList& s) {
                                        return cond(
                                            sum(s[0]) > 0.5, [&] { return TensorList{s[0] * 1.5 + x[0] * in[2]}; },
                                            [&] { return TensorList{s[0] + cos(s[0] * in[2]) * 0.7}; });
                                      },
                                      {c[0] * 0.3 + x[0]})[0];
          return std::pair{TensorList{h}, TensorList{sum(h * x[0])}};
        },
        {in[0]}, {in[1]});
    return sum(carry[0]) + sum(square(ys[0]));
  };
  check_gradient(f, {numbers({0.5, -0.1}, {2}), numbers({0.1, 0.7, -0.4, 0.3, 0.9, -0.2}, {3, 2}), number(0.6)});
}

// The same network with the loop written out: values and all gradients.
TEST(ControlGradient, OfAScanIsThatOfTheLoopWrittenOut) {
  const auto step = [](std::span<const Tensor> in, const Tensor& h, const Tensor& x) {
    return tanh(matmul(h, in[2]) + matmul(x, in[3]));
  };
  const auto scanned = [&](std::span<const Tensor> in) {
    const auto [c, ys] = scan(
        [&](const TensorList& h, const TensorList& x) {
          const Tensor next = step(in, h[0], x[0]);
          return std::pair{TensorList{next}, TensorList{next}};
        },
        {in[1]}, {in[0]});
    return sum(c[0]) + mean(square(ys[0]));
  };
  const auto unrolled = [&](std::span<const Tensor> in) {
    std::vector<Tensor> ys;
    Tensor h = in[1];
    for (std::int64_t t = 0; t < 4; ++t) ys.push_back(h = step(in, h, select(in[0], 0, t)));
    return sum(h) + mean(square(stack(ys)));
  };
  manual_seed(3);
  const auto drawn = [](const Shape& shape) { return normal(shape, {.stddev = 0.5, .dtype = DType::f64}); };
  const std::vector<Tensor> in{drawn({4, 3, 5}), drawn({3, 6}), drawn({6, 6}), drawn({5, 6})};
  const auto gradient = grad_all(scanned);
  const TensorList got = everywhere([&](std::span<const Tensor> x) { return gradient(x); }, in, 1e-11);
  testing::expect_close(got, grad_all(unrolled)(in), 1e-12, "unrolled");
}

TEST(ControlGradient, FlowsOnlyWhereItIsWanted) {
  // Integers, states that do not matter and captures of whole numbers have none.
  const auto f = [](std::span<const Tensor> in) {
    const Tensor two = number(2, DType::i64);
    return sum(while_loop([](const TensorList& s) { return s[1] < 3; },
                          [&](const TensorList& s) {
                            return TensorList{s[0] * cast(s[1] + two, DType::f64), s[1] + 1.0, s[2] * 2.0};
                          },
                          {in[0], number(0, DType::i64), in[1]}, {.max_trips = 5})[0]);
  };
  check_gradient(f, {numbers({1, 2}, {2}), numbers({1}, {1})});
}

TEST(ControlGradient, TwiceThroughLoopsOfStaticLength) {
  const auto twice = [](const WhileOptions& options) {
    return [options](std::span<const Tensor> in) {
      const auto first = grad([options](const Tensor& x) {
        return sum(while_loop([](const TensorList& s) { return sum(s[0]) < 9; },
                              [&](const TensorList& s) { return TensorList{s[0] * s[0] * 0.3 + x + 0.5}; }, {x * x},
                              options)[0]);
      });
      return sum(square(first(in[0])));
    };
  };
  check_gradient(twice({.max_trips = 12}), {numbers({0.6, 1.1}, {2})}, 1e-5);
  const auto scanned = [](std::span<const Tensor> in) {
    const auto first = grad_all([](std::span<const Tensor> x) {
      const auto [c, ys] = scan(
          [&](const TensorList& h, const TensorList& row) {
            return std::pair{TensorList{sin(h[0] * x[2]) + row[0]}, TensorList{h[0] * row[0]}};
          },
          {x[0]}, {x[1]});
      return sum(c[0]) + sum(ys[0] * ys[0]);
    })(in);
    return sum(square(first[0])) + sum(first[1] * first[1] * 0.5) + first[2];
  };
  check_gradient(scanned, {numbers({0.4, -0.3}, {2}), numbers({0.1, 0.9, -0.5, 0.2, 0.3, 0.8}, {3, 2}), number(0.7)},
                 1e-5);
  const auto branches = [](std::span<const Tensor> in) {
    return sum(square(grad([](const Tensor& x) {
      return cond(
          sum(x) > 0, [&] { return TensorList{sum(exp(x) * x)}; }, [&] { return TensorList{sum(x * x * x)}; })[0];
    })(in[0])));
  };
  check_gradient(branches, {numbers({0.5, 0.2}, {2})}, 1e-5);
  check_gradient(branches, {numbers({-0.5, 0.2}, {2})}, 1e-5);
  // Without a bound the second derivative is refused where the function is compiled; eager code has it.
  const std::vector<Tensor> in{numbers({0.6, 1.1}, {2})};
  const auto unbounded = grad_all(twice({}));
  EXPECT_NE(message_of([&] {
              graph::trace([&](std::span<const Tensor> x) { return unbounded(x); }, in);
            }).find("expected a while_loop with max_trips where it is differentiated twice"),
            std::string::npos);
  testing::expect_close(unbounded(in), grad_all(twice({.max_trips = 12}))(in), 1e-12, "eager");
}

// A recurrent cell that repeats until its state is quiet, inside a training step.
struct Pondering {
  Tensor w, v;
  optim::Sgd opt;

  Pondering()
      : w(made({4, 4}, 11, "ponder.w")), v(made({4, 1}, 12, "ponder.v")), opt({w, v}, {.lr = 0.1, .momentum = 0.9}) {}
  static Tensor made(const Shape& shape, std::int64_t seed, const char* name) {
    manual_seed(seed);
    Tensor t = normal(shape, {.stddev = 0.4, .dtype = DType::f64});
    t.set_requires_grad();
    t.set_name(name);
    return t;
  }

  Tensor step(const Tensor& x, const Tensor& y, const WhileOptions& options) {
    const Tensor h = while_loop([](const TensorList& s) { return logical_and(s[1] > 1e-3, s[2] < 30); },
                                [&](const TensorList& s) {
                                  const Tensor next = tanh(matmul(s[0], w) + x);
                                  return TensorList{next, max(abs(next - s[0])), s[2] + 1.0};
                                },
                                {x * 0.0, number(1), number(0)}, options)[0];
    const Tensor loss = mean(square(matmul(h, v) - y));
    loss.backward();
    opt.step();
    return loss;
  }
};

TEST(ControlGradient, TrainsParametersThatALoopReads) {
  manual_seed(1);
  const Tensor x = normal({8, 4}, {.dtype = DType::f64}), y = normal({8, 1}, {.dtype = DType::f64});
  for (std::int64_t max_trips : {0, 30}) {
    const WhileOptions options{.max_trips = max_trips};
    Pondering eager, compiled, plain;
    auto full = compile([&](const Tensor& a, const Tensor& b) { return compiled.step(a, b, options); });
    auto bare =
        compile([&](const Tensor& a, const Tensor& b) { return plain.step(a, b, options); }, {.disable = {"all"}});
    double first = 0, last = 0;
    for (int i = 0; i < 12; ++i) {
      last = eager.step(x, y, options).item();
      if (i == 0) first = last;
      EXPECT_NEAR(full(x, y).item(), last, 1e-9) << "step " << i;
      EXPECT_NEAR(bare(x, y).item(), last, 1e-9) << "step " << i;
    }
    EXPECT_LT(last, 0.7 * first);
    testing::expect_close({compiled.w, compiled.v, plain.w, plain.v}, {eager.w, eager.v, eager.w, eager.v}, 1e-9,
                          "parameters");
    EXPECT_EQ(full.programs(), 1u);
    EXPECT_GE(testing::nodes_named(full.graph(), "while"), 1u);
  }
}

TEST(ControlGradient, SavesStatesOnlyForAGradientThatIsTaken) {
  Tensor w = number(0.5);
  w.set_requires_grad();
  w.set_name("w");
  const auto loop = [&](std::span<const Tensor> in) {
    return while_loop([](const TensorList& s) { return sum(s[0]) < 50; },
                      [&](const TensorList& s) { return TensorList{s[0] * 2.0 + w}; }, {in[0]}, {.max_trips = 64});
  };
  const std::vector<Tensor> in{zeros({1000}, DType::f64)};
  CompiledFunction forward(loop, {}), saving(loop, {.disable = {"all"}});
  testing::expect_close(forward.call(in), saving.call(in), 0, "forward");
  EXPECT_NE(print_short(saving.graph()).find("saves=true"), std::string::npos);
  EXPECT_EQ(print_short(forward.graph()).find("saves=true"), std::string::npos);
  EXPECT_LT(forward.memory_bytes(), 64u * 8000u);
  EXPECT_GE(saving.memory_bytes(), 64u * 8000u);
}

TEST(ControlGradient, OfATableThatALoopLooksUp) {
  const Tensor index = numbers({0, 2, 2, 1}, {4}, DType::i64);
  const auto f = [&](std::span<const Tensor> in) {
    const auto [c, ys] = scan(
        [&](const TensorList& h, const TensorList& i) {
          const Tensor row = embedding(reshape(i[0], {1}), in[0]);
          return std::pair{TensorList{tanh(h[0] * 0.5 + row)}, TensorList{}};
        },
        {in[1]}, {index});
    return sum(square(c[0]));
  };
  check_gradient(f, {numbers({0.1, 0.2, -0.3, 0.4, 0.5, 0.6}, {3, 2}), numbers({0.3, 0.4}, {1, 2})});
}

// Recomputed regions stand between the loop and the tracer, twice over.
TEST(ControlGradient, OfALoopInARegionThatIsRecomputedAndOfSuchARegionInALoop) {
  const auto loop = [](const Tensor& x, const Tensor& w, std::int64_t max_trips) {
    return while_loop([](const TensorList& s) { return sum(s[0]) < 5; },
                      [&](const TensorList& s) { return TensorList{s[0] * 1.2 + square(w)}; }, {x},
                      {.max_trips = max_trips})[0];
  };
  for (std::int64_t max_trips : {0, 50}) {
    check_gradient(
        [&](std::span<const Tensor> in) {
          return sum(
              sin(recompute([=, w = in[1]](const Tensor& x) { return loop(sin(x), w, max_trips) * 2.0; }, in[0])));
        },
        {numbers({0.2, 0.5}, {2}), numbers({0.7, -0.4}, {2})});
  }
  check_gradient(
      [](std::span<const Tensor> in) {
        return sum(while_loop([](const TensorList& s) { return sum(s[0]) < 5; },
                              [&](const TensorList& s) {
                                const auto inner = [w = in[1]](const Tensor& x) { return x * 1.2 + square(w); };
                                return TensorList{recompute(inner, s[0])};
                              },
                              {in[0]}, {.max_trips = 30})[0]);
      },
      {numbers({0.2, 0.5}, {2}), numbers({0.7, -0.4}, {2})});
}

TEST(ControlGradient, InsideABodyByTransforms) {
  // Gradient descent on a capture's loss inside a loop, and its derivative with respect to the capture.
  const auto f = [](std::span<const Tensor> in) {
    const auto slope = grad([&](const Tensor& z) { return sum(square(z * z - in[0])); });
    return sum(while_loop([&](const TensorList& s) { return s[1] < 5; },
                          [&](const TensorList& s) {
                            return TensorList{s[0] - slope(s[0]) * 0.05, s[1] + 1.0};
                          },
                          {in[0] * 0.0 + 1.5, number(0)}, {.max_trips = 6})[0]);
  };
  everywhere([&](std::span<const Tensor> in) { return TensorList{f(in)}; }, {numbers({2, 3}, {2})});
}

// Functions that stop or change a gradient in eager code do so in a body.
TEST(ControlGradient, StopsAtDetachAndObeysCustomFunctionsAndHooksInsideABody) {
  const CustomFunction straight_through{
      .name = "straight_through",
      .forward = [](FunctionContext&, std::span<const Tensor> in) { return TensorList{round(in[0])}; },
      .backward = [](FunctionContext&, std::span<const Tensor> g) { return TensorList{g[0] * 3.0}; }};
  for (std::int64_t max_trips : {0, 9}) {
    const auto loss = [&](std::span<const Tensor> in) {
      const Tensor factor = exp(in[1]);
      const Tensor h = while_loop([](const TensorList& s) { return s[1] < 3; },
                                  [&](const TensorList& s) {
                                    const Tensor rounded = custom_function({&s[0], 1}, straight_through)[0];
                                    const Tensor hooked = s[0] * factor;
                                    if (hooked.requires_grad())
                                      hooked.register_hook([factor](const Tensor& g) { return g * factor.detach(); });
                                    return TensorList{rounded * 0.1 + hooked + s[0].detach() * in[1], s[1] + 1.0};
                                  },
                                  {in[0], sum(in[0]) * 0.0}, {.max_trips = max_trips})[0];
      return cond(
          sum(h) > 0, [&] { return TensorList{sum(h * h.detach())}; }, [&] { return TensorList{sum(h)}; })[0];
    };
    const auto gradient = grad_all(loss);
    const std::vector<Tensor> in{numbers({0.6, 1.7}, {2}), numbers({0.2, -0.3}, {2})};
    const TensorList found = everywhere([&](std::span<const Tensor> x) { return gradient(x); }, in);
    const TensorList other = grad_all([&](std::span<const Tensor> x) { return loss(x) * 2.0; })(in);
    EXPECT_NEAR(other[0].to_vector()[0], 2 * found[0].to_vector()[0], 1e-9);
  }
}

// Bodies that nobody traced here have no tape: their nodes are applied again.
TEST(ControlGradient, OfAGraphThatWasReadFromText) {
  const auto f = [](std::span<const Tensor> in) { return nested(in[0], in[1], {.max_trips = 40}); };
  const auto unbounded = [](std::span<const Tensor> in) { return nested(in[0], in[1], {}); };
  const std::vector<Tensor> in{numbers({0.2, 0.5, 0.1}, {3}), numbers({0.7, -0.4, 1.1}, {3})};
  for (const Loss& loss : {Loss(f), Loss(unbounded)}) {
    const graph::Graph graph = graph::parse_graph(graph::print(no_grad(
        [&] { return graph::trace([&](std::span<const Tensor> x) { return TensorList{loss(x)}; }, in).graph; })));
    const auto again = grad_all([&](std::span<const Tensor> x) { return apply_body(graph, x)[0]; });
    CompiledFunction compiled([&](std::span<const Tensor> x) { return again(x); }, {});
    testing::expect_close(compiled.call(in), grad_all(loss)(in), 1e-11, "read from text");
  }
}

TEST(ControlGradient, RefusesBackwardInsideABody) {
  Tensor w = number(0.5);
  w.set_requires_grad();
  w.set_name("w");
  const auto f = [&](std::span<const Tensor> in) {
    return while_loop([](const TensorList& s) { return s[0] < 3; },
                      [&](const TensorList& s) {
                        (s[0].detach() * w).backward();
                        return TensorList{s[0] + 1.0};
                      },
                      {in[0]});
  };
  const std::vector<Tensor> in{number(0)};
  EXPECT_NE(message_of([&] { graph::trace(f, in); }).find("got one that fills the gradient of 'w'"), std::string::npos);
  EXPECT_FALSE(w.grad().defined());
}

}  // namespace
}  // namespace starling::runtime
