#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_checks.h"
#include "starling/autograd/transforms.h"
#include "starling/ops/def/apply.h"

// Gradients must be differentiable in their incoming gradient: jvp is computed that way.
namespace starling::testing {
namespace {

std::vector<Tensor> wave_like(std::span<const Tensor> tensors, double phase) {
  std::vector<Tensor> waves;
  for (const auto& t : tensors) {
    std::vector<double> values(static_cast<std::size_t>(t.numel()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = is_float(t.dtype()) ? std::sin(phase += 0.71) : 0.0;
    waves.push_back(from_doubles(values, t.shape(), t.dtype()));
  }
  return waves;
}

double dot(std::span<const Tensor> a, std::span<const Tensor> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!is_float(a[i].dtype())) continue;
    const auto x = a[i].to_vector(), y = b[i].to_vector();
    for (std::size_t j = 0; j < x.size(); ++j) sum += x[j] * y[j];
  }
  return sum;
}

TEST(Jvp, OfEveryOpIsTheAdjointOfItsGradient) {
  for (const auto* op : tested_ops()) {
    if (!op->gradient || !op->cases) continue;
    for (const auto& sample : op->cases()) {
      const Drawn drawn = draw(sample, DType::f64);
      const TensorListFn f = [&](std::span<const Tensor> in) { return apply(*op, in, sample.attrs); };
      const auto v = wave_like(drawn.span(), 0.3);
      const Jvp pushed = jvp(f, drawn.span(), v);
      const std::span<const Tensor> outputs(pushed.outputs.data(), pushed.outputs.size());
      const auto u = wave_like(outputs, 1.9);
      const TensorList pulled = vjp(f, drawn.span()).pullback(u);
      const double ahead = dot(u, {pushed.tangents.data(), pushed.tangents.size()});
      const double back = dot({pulled.data(), pulled.size()}, v);
      EXPECT_NEAR(ahead, back, 1e-9 * (1 + std::abs(back))) << describe(*op, sample);
    }
  }
}

}  // namespace
}  // namespace starling::testing
