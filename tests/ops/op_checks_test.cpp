#include "ops/op_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>

#include "starling/autograd/autograd.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/ops/def/registry.h"

namespace starling::testing {
namespace {

// Evenly spaced and shuffled: no two closer than the spacing, and none at the middle of the range.
std::vector<double> spaced(std::size_t n, double low, double high, double shift, std::mt19937& random) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = low + (high - low) * (static_cast<double>(i) + shift) / static_cast<double>(n);
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

// Along a vector it makes the values ascend.
void add_diagonal(std::vector<double>& values, const CaseInput& input) {
  if (input.shape.rank() == 1) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += input.diagonal * static_cast<double>(i);
    return;
  }
  const auto cols = static_cast<std::size_t>(input.shape.back());
  const auto rows = static_cast<std::size_t>(input.shape[input.shape.rank() - 2]);
  for (std::size_t at = 0; at < values.size(); at += rows * cols) {
    for (std::size_t i = 0; i < std::min(rows, cols); ++i)
      values[at + i * cols + i] += input.diagonal * static_cast<double>(i + 1);
  }
}

Tensor draw_one(const CaseInput& input, DType floats, double shift, std::mt19937& random) {
  const auto n = static_cast<std::size_t>(input.shape.numel());
  std::vector<double> values(n);
  std::uniform_real_distribution<double> uniform(input.low, input.high);
  for (auto& v : values) v = uniform(random);
  if (input.distinct) values = spaced(n, input.low, input.high, shift, random);
  if (!is_float(input.dtype)) {
    for (auto& v : values) v = std::floor(v);
  }
  if (input.diagonal != 0) add_diagonal(values, input);
  if (input.ascending && n > 0) {
    std::sort(values.begin(), values.end());
    values[0] = input.low;
  }
  return from_doubles(values, input.shape, input.dtype == DType::f64 ? floats : input.dtype);
}

// Σ over float outputs of output · weights, the weights fixed by the shapes.
struct Weights {
  std::vector<Tensor> of;
  explicit Weights(std::span<const Tensor> outputs) {
    std::mt19937 random(11);
    for (const auto& out : outputs)
      of.push_back(draw_one({.shape = out.shape(), .low = 0.5, .high = 1.5}, DType::f64, 0.3, random));
  }
  double sum(std::span<const Tensor> outputs) const {
    double total = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined() || !is_float(outputs[i].dtype())) continue;
      const auto a = outputs[i].to_vector(), b = of[i].to_vector();
      for (std::size_t j = 0; j < a.size(); ++j) total += a[j] * b[j];
    }
    return total;
  }
};

struct Function {
  const OpDef& op;
  const Attrs attrs;
  int order;

  // Order 1: the outputs. Order 2: the gradients of the float inputs for fixed weights of the outputs.
  TensorList operator()(std::span<const Tensor> in) const {
    const TensorList out = apply(op, in, attrs);
    if (order == 1) return floats_of({out.data(), out.size()});
    const TensorList outputs = floats_of({out.data(), out.size()}), inputs = floats_of(in);
    const Weights weights({outputs.data(), outputs.size()});
    TensorList used, seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad()) continue;
      used.push_back(outputs[i]);
      seeds.push_back(weights.of[i]);
    }
    return gradients({used.data(), used.size()}, {inputs.data(), inputs.size()}, {seeds.data(), seeds.size()},
                     {.create_graph = true});
  }

  static TensorList floats_of(std::span<const Tensor> tensors) {
    TensorList floats;
    for (const auto& t : tensors) {
      if (t.dtype() == DType::f64) floats.push_back(t);
    }
    return floats;
  }
};

double evaluate(const Function& f, std::span<const Tensor> in) {
  const TensorList out = f(in);
  return Weights({out.data(), out.size()}).sum({out.data(), out.size()});
}

// Zeros for every input when no result depends on them in a way the tape knows.
TensorList analytic(const Function& f, std::span<const Tensor> in, std::span<const Tensor> wanted) {
  const TensorList out = f(in);
  const Weights weights({out.data(), out.size()});
  TensorList used, seeds;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].requires_grad()) continue;
    used.push_back(out[i]);
    seeds.push_back(weights.of[i]);
  }
  if (!used.empty()) return gradients({used.data(), used.size()}, wanted, {seeds.data(), seeds.size()});
  TensorList zero;
  for (const auto& x : wanted) zero.push_back(zeros(x.shape(), x.dtype()));
  return zero;
}

}  // namespace

Drawn draw(const OpCase& sample, DType floats, unsigned seed) {
  std::mt19937 random(seed);
  Drawn drawn;
  const double operands = static_cast<double>(sample.in.size());
  for (std::size_t i = 0; i < sample.in.size(); ++i) {
    drawn.in.push_back(draw_one(sample.in[i], floats, (0.37 + static_cast<double>(i)) / operands, random));
  }
  return drawn;
}

Tensor strided_copy(const Tensor& tensor) {
  Shape reversed;
  for (int i = tensor.rank() - 1; i >= 0; --i) reversed.push_back(tensor.shape()[i]);
  const Tensor memory = empty(reversed, tensor.dtype());
  Shape strides;
  const Shape dense = contiguous_strides(reversed);
  for (int i = tensor.rank() - 1; i >= 0; --i) strides.push_back(dense[i]);
  const Tensor view = view_of(memory, tensor.shape(), strides, 0);
  const auto values = tensor.to_vector();
  const std::size_t size = size_of(tensor.dtype());
  const auto* from = static_cast<const std::byte*>(tensor.raw());
  auto* to = static_cast<std::byte*>(view.raw());
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    std::int64_t rest = i, at = 0;
    for (int d = tensor.rank() - 1; d >= 0; --d) {
      at += rest % tensor.shape()[d] * strides[d];
      rest /= tensor.shape()[d];
    }
    std::memcpy(to + static_cast<std::size_t>(at) * size, from + static_cast<std::size_t>(i) * size, size);
  }
  return view;
}

Attrs attrs_for(const OpCase& sample, DType floats) {
  Attrs attrs = sample.attrs;
  for (const auto& field : attrs.type().fields) {
    if (field.kind == AttrKind::dtype && attrs.get<DType>(field) == DType::f64) attrs.get<DType>(field) = floats;
  }
  return attrs;
}

GradCheck check_gradient(const OpDef& op, const OpCase& sample, int order) {
  constexpr double kStep = 1e-5;
  constexpr std::int64_t kMostElements = 40;
  Drawn drawn = draw(sample, DType::f64);
  const Function f{op, sample.attrs, order};
  TensorList wanted;
  for (auto& x : drawn.in) {
    if (x.dtype() == DType::f64) wanted.push_back(x.set_requires_grad());
  }
  const TensorList grads = analytic(f, drawn.in, {wanted.data(), wanted.size()});
  GradCheck result;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto given = grads[i].to_vector();
    const std::int64_t n = wanted[i].numel(), stride = std::max<std::int64_t>(1, n / kMostElements);
    for (std::int64_t e = 0; e < n; e += stride) {
      double& x = wanted[i].data<double>()[e];
      const double at = x;
      x = at + kStep;
      const double above = evaluate(f, drawn.in);
      x = at - kStep;
      const double below = evaluate(f, drawn.in);
      x = at;
      const double numeric = (above - below) / (2 * kStep), exact = given[static_cast<std::size_t>(e)];
      const double error = std::abs(numeric - exact) / (1 + std::abs(exact));
      result.worst = std::max(result.worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
      ++result.compared;
    }
  }
  return result;
}

double difference(const Tensor& a, const Tensor& b) {
  if (!(a.type() == b.type())) return std::numeric_limits<double>::infinity();
  const auto x = a.to_vector(), y = b.to_vector();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return std::numeric_limits<double>::infinity();
    if (x[i] == y[i] || std::isnan(x[i])) continue;
    worst = std::max(worst, std::abs(x[i] - y[i]) / (1 + std::abs(y[i])));
  }
  return worst;
}

std::string describe(const OpDef& op, const OpCase& sample) {
  std::string text = op.name + "(";
  for (const auto& in : sample.in) text += to_string(TensorType{in.dtype, in.shape}) + " ";
  return text + ") " + sample.attrs.print();
}

std::vector<const OpDef*> tested_ops() {
  const char* names = std::getenv("STARLING_OPS");
  if (names == nullptr) return op_registry().sorted();
  std::vector<const OpDef*> ops;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) ops.push_back(&find_op(name));
  return ops;
}

std::vector<const OpDef*> tested_ops(int shard) {
  const auto all = tested_ops();
  std::vector<const OpDef*> ops;
  for (std::size_t i = static_cast<std::size_t>(shard); i < all.size(); i += kShards) ops.push_back(all[i]);
  return ops;
}

// Control flow has bodies, which only a graph holds: tests/runtime/control_*_test.cpp.
bool is_graph_only(const OpDef& op) { return op.stateful || is_control(op); }

TEST(OpChecks, EveryOpHasSampleCalls) {
  for (const auto* op : tested_ops()) {
    if (is_graph_only(*op)) continue;
    EXPECT_TRUE(op->cases && !op->cases().empty()) << op->name << " has no cases: no check covers it";
  }
}

TEST(OpChecks, DrawsDistinctValuesApart) {
  const OpCase sample{{{.shape = {40}, .distinct = true}, {.shape = {40}, .distinct = true}}, op::NoAttrs{}};
  const Drawn drawn = draw(sample, DType::f64);
  std::vector<double> all = drawn.in[0].to_vector();
  for (double v : drawn.in[1].to_vector()) all.push_back(v);
  std::sort(all.begin(), all.end());
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_GT(all[i] - all[i - 1], 1e-3);
}

TEST(OpChecks, MakesStridedCopiesWithTheSameValues) {
  const Tensor x = draw({{{.shape = {3, 4, 2}}}, op::NoAttrs{}}, DType::f32).in[0];
  const Tensor y = strided_copy(x);
  EXPECT_FALSE(y.contiguous());
  EXPECT_EQ(difference(y, x), 0);
}

}  // namespace starling::testing
