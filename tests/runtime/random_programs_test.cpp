#include <gtest/gtest.h>

#include <cmath>

#include "runtime/step_testing.h"
#include "starling/graph/parser.h"
#include "starling/graph/pass.h"
#include "starling/graph/printer.h"
#include "starling/runtime/container.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/interpreter/graph_interpreter.h"

namespace starling::runtime {
namespace {

// Random graphs of the ops that passes look for, with everything that makes rewriting hard: shared values, constants,
// broadcasts, views of views, products, reductions, several outputs.
class RandomProgram {
 public:
  RandomProgram(std::uint32_t seed, DType dtype) : state_(seed * 2654435761u + 1), dtype_(dtype) {
    text_ = "starling-graph 1\n";
    const std::string type = dtype == DType::f64 ? ", dtype=f64" : "";
    for (int i = 0; i < 3; ++i) line(fmt::format("input {{index={}, shape=[4, 4]{}}}", i, type));
    line(fmt::format("full {{value={}{}}}", pick({"0", "1", "-1", "0.5", "2", "3"}), type));
    line(fmt::format("full {{shape=[4, 4], value={}{}}}", pick({"0", "1", "-2"}), type));
    scalar_ = 3;
    for (int i = 0; i < 30; ++i) add();
    text_ += fmt::format("return %{}, %{}, %{}\n", matrix(), matrix(), count_ - 1);
  }
  const std::string& text() const { return text_; }

 private:
  std::size_t below(std::size_t n) {
    state_ = state_ * 1664525u + 1013904223u;
    return (state_ >> 8) % n;
  }
  std::string pick(std::initializer_list<const char*> list) { return *(list.begin() + below(list.size())); }
  void line(const std::string& what) { text_ += fmt::format("%{} = {}\n", count_++, what); }
  void made(const std::string& what) {
    line(what);
    matrices_.push_back(count_ - 1);
  }
  int matrix() {
    const auto at = below(matrices_.size() + 4);
    return at >= matrices_.size() ? static_cast<int>(at - matrices_.size() == 3 ? 4 : at - matrices_.size())
                                  : matrices_[at];
  }

  void add() {
    const std::string dtype = dtype_ == DType::f64 ? "f64" : "f32";
    switch (below(14)) {
      case 0:
        return made(
            fmt::format("{}(%{})", pick({"tanh", "relu", "neg", "abs", "sigmoid", "square", "softmax"}), matrix()));
      case 1: return made(fmt::format("{}(%{}, %{})", pick({"add", "sub", "mul", "maximum"}), matrix(), matrix()));
      case 2: return made(fmt::format("{}(%{}, %{})", pick({"add", "sub", "mul"}), matrix(), scalar_));
      case 3:
        return made(fmt::format("matmul(%{}, %{}) {{trans_a={}, trans_b={}}}", matrix(), matrix(),
                                pick({"true", "false"}), pick({"true", "false"})));
      case 4: return made(fmt::format("transpose(%{})", matrix()));
      case 5:
        line(fmt::format("reshape(%{}) {{shape=[2, 8]}}", matrix()));
        return made(fmt::format("reshape(%{}) {{shape=[4, 4]}}", count_ - 1));
      case 6:
        line(fmt::format("sum(%{}) {{axes=[{}], keepdim=true}}", matrix(), below(2)));
        return made(fmt::format("broadcast_to(%{}) {{shape=[4, 4]}}", count_ - 1));
      case 7:
        line(fmt::format("slice(%{}) {{axis=1, end=1}}", matrix()));
        line(fmt::format("slice(%{}) {{axis=1, begin=1}}", matrix()));
        return made(fmt::format("concat(%{}, %{}) {{axis=1}}", count_ - 2, count_ - 1));
      case 8: return made(fmt::format("linear(%{}, %{})", matrix(), matrix()));
      case 9:
        line(fmt::format("cast(%{}) {{dtype=f64}}", matrix()));
        return made(fmt::format("cast(%{}) {{dtype={}}}", count_ - 1, dtype));
      case 10:
        line(fmt::format("greater(%{}, %{})", matrix(), matrix()));
        return made(fmt::format("where(%{}, %{}, %{})", count_ - 1, matrix(), matrix()));
      case 11: return made(fmt::format("mul(%{}, %{})", scalar_, matrix()));
      case 12: return made(fmt::format("{}_backward(%{}, %{})", pick({"relu", "tanh", "softmax"}), matrix(), matrix()));
      default: return made(fmt::format("log_softmax(%{})", matrix()));
    }
  }

  std::uint32_t state_;
  DType dtype_;
  std::string text_;
  int count_ = 0;
  int scalar_ = 0;
  std::vector<int> matrices_;
};

bool alike(const Tensor& a, const Tensor& b, double tolerance) {
  const auto va = a.to_vector(), vb = b.to_vector();
  double norm = 1;
  for (double v : vb) norm = std::max(norm, std::abs(v));
  for (std::size_t i = 0; i < va.size(); ++i) {
    const bool same = va[i] == vb[i] || (std::isnan(va[i]) && std::isnan(vb[i]));
    if (!same && !(std::abs(va[i] - vb[i]) <= tolerance * norm)) return false;
  }
  return true;
}

void expect_same(const graph::Graph& before, const graph::Graph& now, std::span<const Tensor> inputs, double tolerance,
                 const std::string& what) {
  const TensorList wanted = interpret(before, {}, inputs), got = interpret(now, {}, inputs);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(alike(got[i], wanted[i], tolerance)) << what << " output " << i << "\n" << before << "\n" << now;
}

// Values stay near 1 in size, so that a tolerance means the same everywhere.
class RandomPrograms : public ::testing::TestWithParam<DType> {};

TEST_P(RandomPrograms, MeanTheSameAfterEveryPassAndAfterAll) {
  const double tolerance = GetParam() == DType::f64 ? 1e-11 : 1e-5;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    const graph::Graph graph = graph::parse_graph(RandomProgram(seed, GetParam()).text());
    manual_seed(seed);
    std::vector<Tensor> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(cast(mul(normal({4, 4}), 0.5), GetParam()));
    for (const auto& pass : graph::all_passes()) {
      expect_same(graph, pass.run(graph, {}), inputs, tolerance, fmt::format("{} of {}", pass.name, seed));
      if (HasFatalFailure()) return;
    }
    expect_same(graph, run_passes(graph, {}, {}).graph, inputs, tolerance, fmt::format("all of {}", seed));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RandomPrograms, ::testing::Values(DType::f32, DType::f64));

}  // namespace
}  // namespace starling::runtime
