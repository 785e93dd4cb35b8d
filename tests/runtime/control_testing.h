#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "starling/graph/control/control.h"
#include "starling/kernels/eager.h"
#include "starling/runtime/interpreter/graph_interpreter.h"
#include "starling/starling.h"

namespace starling::testing {

inline void expect_close(const TensorList& got, const TensorList& expected, double tolerance, const std::string& how) {
  ASSERT_EQ(got.size(), expected.size()) << how;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(to_string(got[i].type()), to_string(expected[i].type())) << how << ", result " << i;
    const auto a = got[i].to_vector(), b = expected[i].to_vector();
    for (std::size_t k = 0; k < a.size(); ++k)
      EXPECT_NEAR(a[k], b[k], tolerance * (1 + std::abs(b[k]))) << how << ", result " << i << " at " << k;
  }
}

inline TensorList interpreted(const graph::TraceFn& f, const std::vector<Tensor>& in) {
  const graph::Trace traced = graph::trace(f, in);
  std::vector<Tensor> inputs = in;
  inputs.insert(inputs.end(), traced.hidden_inputs.begin(), traced.hidden_inputs.end());
  return runtime::interpret(traced.graph, Container::of(traced.graph), inputs);
}

// Result of f, checked to be the same eagerly, interpreted, and compiled without and with passes.
inline TensorList everywhere(const graph::TraceFn& f, const std::vector<Tensor>& in, double tolerance = 1e-12) {
  TensorList expected = f(in);
  for (auto& tensor : expected) tensor = kernels::densify(tensor.detach());
  expect_close(interpreted(f, in), expected, tolerance, "interpreted");
  CompiledFunction plain(f, {.disable = {"all"}}), full(f, {}), alone(f, {.reuse_memory = false});
  for (int call = 0; call < 2; ++call) {
    expect_close(plain.call(in), expected, tolerance, "compiled without passes");
    expect_close(full.call(in), expected, tolerance, "compiled");
    expect_close(alone.call(in), expected, tolerance, "compiled without reuse of memory");
  }
  return expected;
}

using Loss = std::function<Tensor(std::span<const Tensor>)>;

// Checks the gradient of a scalar function of f64 tensors, in all modes, against central differences.
inline void check_gradient(const Loss& f, const std::vector<Tensor>& in, double tolerance = 1e-6) {
  const auto gradient = grad_all(f);
  const TensorList found = everywhere([&](std::span<const Tensor> x) { return gradient(x); }, in, 1e-11);
  constexpr double kStep = 1e-6;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::vector<double> values = in[i].to_vector();
    const auto got = found[i].to_vector();
    for (std::size_t k = 0; k < values.size(); ++k) {
      const auto at = [&](double delta) {
        std::vector<double> moved = values;
        moved[k] += delta;
        std::vector<Tensor> x = in;
        x[i] = from_doubles(moved, in[i].shape(), DType::f64);
        return f(x).item();
      };
      const double expected = (at(kStep) - at(-kStep)) / (2 * kStep);
      EXPECT_NEAR(got[k], expected, tolerance * (1 + std::abs(expected))) << "input " << i << " at " << k;
    }
  }
}

inline Tensor numbers(std::initializer_list<double> values, const Shape& shape, DType dtype = DType::f64) {
  return from_doubles(std::vector<double>(values), shape, dtype);
}
inline Tensor number(double value, DType dtype = DType::f64) { return numbers({value}, {}, dtype); }

// Message of the Error that f throws; empty if none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline std::size_t nodes_named(const graph::Graph& graph, std::string_view op) {
  std::size_t count = 0;
  for (const graph::Node& node : graph.nodes()) count += is_op(node, op);
  return count;
}

}  // namespace starling::testing
