// Chains of elementwise ops, broadcasts and reductions: compiled they are one node, and equal what eager code gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

#include "runtime/step_testing.h"
#include "starling/autograd/autograd.h"
#include "starling/base/parallel.h"
#include "starling/graph/printer.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/runtime/compile.h"

namespace starling::runtime {
namespace {

using testing::relative_l2;

int nodes_of(const graph::Graph& graph, bool fused) {
  int count = 0;
  for (const graph::Node& node : graph.nodes()) {
    const bool view = node.op->view != nullptr || node.op->name == "full";
    if (!is_source(node) && !view) count += fused == (node.op->name == "fused");
  }
  return count;
}

// Chains that only the reference kernel runs would be slower than their ops.
bool runs_fast(const CompiledFunction& compiled) {
  std::istringstream lines(compiled.explain());
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" fused ") != std::string::npos && line.find(" reference ") != std::string::npos) return false;
  }
  return true;
}

Tensor drawn(const Shape& shape, DType dtype = DType::f32) {
  return uniform(shape, {.low = -2, .high = 2, .dtype = dtype});
}

template <class F>
void expect_one_node(const F& f, const Tensor& x) {
  auto compiled = compile(f);
  const Tensor got = compiled(x), want = f(x);
  EXPECT_LE(relative_l2(got, want), x.dtype() == DType::f32 ? 1e-5 : 1e-12);
  EXPECT_EQ(nodes_of(compiled.graph(), true), 1) << print(compiled.graph());
  EXPECT_EQ(nodes_of(compiled.graph(), false), 0) << print(compiled.graph());
  EXPECT_NE(compiled.explain().find(" fused "), std::string::npos);
  EXPECT_TRUE(runs_fast(compiled)) << compiled.explain();
}

Tensor softmax_by_hand(const Tensor& x) {
  const Tensor e = exp(sub(x, max(x, {.axes = {-1}, .keepdim = true})));
  return div(e, sum(e, {.axes = {-1}, .keepdim = true}));
}

Tensor layer_norm_by_hand(const Tensor& x) {
  const Tensor apart = sub(x, mean(x, {.axes = {-1}, .keepdim = true}));
  const Tensor var = mean(mul(apart, apart), {.axes = {-1}, .keepdim = true});
  return add(mul(div(apart, sqrt(add(var, 1e-5))), 1.5), 0.25);
}

Tensor rms_norm_by_hand(const Tensor& x) {
  return div(x, sqrt(add(mean(mul(x, x), {.axes = {-1}, .keepdim = true}), 1e-6)));
}

Tensor logsumexp_by_hand(const Tensor& x) {
  const Tensor most = max(x, {.axes = {-1}, .keepdim = true});
  return add(log(sum(exp(sub(x, most)), {.axes = {-1}})), squeeze(most, {-1}));
}

TEST(Fusion, MakesOneNodeOfSoftmaxNormsAndLogSumExpWrittenByHand) {
  for (DType dtype : {DType::f32, DType::f64}) {
    for (const Shape& shape : {Shape{37, 129}, Shape{5, 3, 700}, Shape{64, 2}, Shape{1, 9}, Shape{9}}) {
      const Tensor x = drawn(shape, dtype);
      expect_one_node(softmax_by_hand, x);
      expect_one_node(layer_norm_by_hand, x);
      expect_one_node(rms_norm_by_hand, x);
      expect_one_node(logsumexp_by_hand, x);
    }
  }
}

TEST(Fusion, MakesOneNodeOfSixOpsABroadcastAndAReduction) {
  const Tensor bias = drawn({300});
  for (const Shape& axes : {Shape{1}, Shape{0}, Shape{}}) {
    expect_one_node(
        [&](const Tensor& x) {
          const Tensor y = sub(relu(add(mul(x, 0.5), bias)), 0.125);
          return sum(abs(mul(y, y)), {.axes = axes});
        },
        drawn({200, 300}));
  }
}

// Gradient of a function as a graph: few nodes, and the numbers of eager code.
template <class F>
void expect_gradient(const F& f, const Tensor& x, int most) {
  const auto slope = [&](const Tensor& a) { return grad([&](const Tensor& t) { return sum(mul(f(t), f(t))); })(a); };
  auto compiled = compile(slope);
  const Tensor got = compiled(x), want = slope(x);
  EXPECT_LE(relative_l2(got, want), x.dtype() == DType::f32 ? 1e-5 : 1e-11);
  EXPECT_LE(nodes_of(compiled.graph(), true) + nodes_of(compiled.graph(), false), most) << print(compiled.graph());
}

TEST(Fusion, MakesFewNodesOfTheirGradients) {
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = drawn({23, 41}, dtype);
    expect_gradient(layer_norm_by_hand, x, 2);
    expect_gradient(rms_norm_by_hand, x, 2);
    expect_gradient([](const Tensor& t) { return div(exp(t), sum(exp(t), {.axes = {-1}, .keepdim = true})); }, x, 2);
  }
}

// A random function of up to three tensors: a DAG of elementwise ops, broadcasts and reductions.
class RandomFunction {
 public:
  explicit RandomFunction(unsigned seed) : seed_(seed) {}

  TensorList operator()(const Tensor& a, const Tensor& b, const Tensor& c) const {
    std::mt19937 engine(seed_);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(engine() % n); };
    std::vector<Tensor> full{a, add(a, b), mul(a, c)}, reduced;
    for (int s = 0; s < 14; ++s) {
      const Tensor x = full[below(full.size())], y = full[below(full.size())];
      switch (below(9)) {
        case 0: full.push_back(tanh(x)); break;
        case 1: full.push_back(relu(sub(x, y))); break;
        case 2: full.push_back(add(mul(x, 0.5), c)); break;
        case 3: full.push_back(mul(x, tanh(y))); break;
        case 4: full.push_back(sub(abs(x), mul(b, 0.25))); break;
        case 5: full.push_back(sub(x, mean(y, {.axes = {-1}, .keepdim = true}))); break;
        case 6: reduced.push_back(tanh(mul(sum(x, {.axes = {-1}}), 0.01))); break;
        case 7: reduced.push_back(mean(x, {.axes = {0}})); break;
        default: reduced.push_back(mean(mul(x, y), {}));
      }
    }
    TensorList out{full.back(), full[full.size() / 2]};
    for (const auto& r : reduced) out.push_back(r);
    return out;
  }

 private:
  unsigned seed_;
};

TEST(Fusion, OfRandomChainsEqualsEagerAndLeavesFewNodes) {
  const Shape shapes[] = {{7, 5}, {33, 130}, {3, 11, 17}, {2, 5, 3, 19}, {40, 1}, {0, 6}, {1, 300}, {9, 600}};
  int before = 0, after = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const DType dtype = seed % 2 ? DType::f32 : DType::f64;
    const Shape& shape = shapes[seed % 8];
    Shape column = shape;
    column[shape.rank() - 1] = 1;
    const Tensor a = drawn(shape, dtype), b = drawn({shape.back()}, dtype), c = drawn(column, dtype);
    const RandomFunction f(seed);
    const TensorList want = f(a, b, c);
    for (int threads : {1, 3}) {
      const ThreadScope scope(threads);
      auto compiled = compile(f, {.threads = threads});
      const TensorList got = compiled(a, b, c);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t o = 0; o < got.size(); ++o) {
        ASSERT_EQ(got[o].shape(), want[o].shape());
        if (shape.numel() == 0) continue;
        // Sums of terms that cancel are compared with the size of the terms.
        const auto x = got[o].to_vector(), y = want[o].to_vector();
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_NEAR(x[i], y[i], (dtype == DType::f32 ? 1e-5 : 1e-12) * std::max(1.0, std::abs(y[i])))
              << "seed " << seed << " output " << o << "\n"
              << print(compiled.graph());
      }
      EXPECT_TRUE(runs_fast(compiled)) << compiled.explain();
      before += nodes_of(compiled.traced_graph(), false);
      after += nodes_of(compiled.graph(), true) + nodes_of(compiled.graph(), false);
    }
  }
  EXPECT_LE(after * 6, before) << before << " nodes became " << after;
}

TEST(Fusion, OfRandomChainsHasTheGradientsOfEager) {
  int before = 0, after = 0;
  for (unsigned seed = 100; seed < 130; ++seed) {
    const DType dtype = seed % 2 ? DType::f32 : DType::f64;
    const Tensor a = drawn({13, 21}, dtype), b = drawn({21}, dtype), c = drawn({13, 1}, dtype);
    const RandomFunction f(seed);
    const auto slopes = [&](const Tensor& x, const Tensor& y, const Tensor& z) {
      const Tensor in[] = {x, y, z};
      const auto loss = [&](std::span<const Tensor> t) {
        Tensor total;
        for (const auto& out : f(t[0], t[1], t[2])) {
          const Tensor term = sum(mul(out, out));
          total = total.defined() ? add(total, term) : term;
        }
        return total;
      };
      TensorList leaves;
      for (const auto& t : in) {
        leaves.push_back(t.detach());
        leaves.back().set_requires_grad();
      }
      const Tensor value = loss({leaves.data(), leaves.size()});
      return gradients({&value, 1}, {leaves.data(), leaves.size()});
    };
    const TensorList want = slopes(a, b, c);
    auto compiled = compile(slopes);
    const TensorList got = compiled(a, b, c);
    for (std::size_t o = 0; o < got.size(); ++o)
      ASSERT_LE(relative_l2(got[o], want[o]), dtype == DType::f32 ? 2e-5 : 1e-11) << "seed " << seed;
    EXPECT_TRUE(runs_fast(compiled)) << compiled.explain();
    before += nodes_of(compiled.traced_graph(), false);
    after += nodes_of(compiled.graph(), true) + nodes_of(compiled.graph(), false);
  }
  EXPECT_LE(after * 5, before) << before << " nodes became " << after;
}

}  // namespace
}  // namespace starling::runtime
