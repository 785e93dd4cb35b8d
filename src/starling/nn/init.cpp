#include "starling/nn/init.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "starling/base/error.h"
#include "starling/base/file/glob.h"
#include "starling/base/parallel.h"
#include "starling/nn/deferred_weights.h"
#include "starling/nn/module.h"
#include "starling/nn/orthogonal.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/random.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/state.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/scopes/scope.h"

namespace starling::nn {
namespace {

struct Fans {
  double in = 1;
  double out = 1;
};

Fans fans_of(const Shape& shape, InitKind kind) {
  check(shape.rank() >= 2 && shape.numel() > 0,
        "[init] expected a weight with two dimensions or more for {}, which looks at fans, got {}", name(kind),
        to_string(shape));
  const std::int64_t taps = shape.numel() / shape[0] / shape[1];
  const auto each = static_cast<double>(taps);
  return {static_cast<double>(shape[1]) * each, static_cast<double>(shape[0]) * each};
}

// Standard deviation that keeps the variance of values (He: after a relu, which drops half of them).
double spread_of(const Shape& shape, const Init& init) {
  const Fans fans = fans_of(shape, init.kind);
  switch (init.kind) {
    case InitKind::xavier_uniform:
    case InitKind::xavier_normal: return init.gain * std::sqrt(2 / (fans.in + fans.out));
    case InitKind::he_uniform:
    case InitKind::he_normal: return init.gain * std::sqrt(2 / (init.fan_out ? fans.out : fans.in));
    default: return init.gain * std::sqrt(1 / fans.in);
  }
}

Draw uniform_of(double deviation) {
  const double bound = std::sqrt(3.0) * deviation;
  return {Draw::Kind::uniform, -bound, bound};
}

// Ways to begin whose numbers are drawn one by one; nullopt: they depend on each other.
std::optional<Draw> draw_of(const Shape& shape, const Init& init) {
  switch (init.kind) {
    case InitKind::constant: return Draw{Draw::Kind::constant, init.value};
    case InitKind::uniform: return Draw{Draw::Kind::uniform, init.low, init.high};
    case InitKind::normal: return Draw{Draw::Kind::normal, init.mean, init.stddev};
    case InitKind::xavier_uniform:
    case InitKind::he_uniform:
    case InitKind::lecun_uniform: return uniform_of(spread_of(shape, init));
    case InitKind::xavier_normal:
    case InitKind::he_normal:
    case InitKind::lecun_normal: return Draw{Draw::Kind::normal, 0, spread_of(shape, init)};
    default: return std::nullopt;
  }
}

Tensor drawn(const Shape& shape, const Draw& draw) {
  switch (draw.kind) {
    case Draw::Kind::uniform: return starling::uniform(shape, {.low = draw.a, .high = draw.b});
    case Draw::Kind::normal: return starling::normal(shape, {.mean = draw.a, .stddev = draw.b});
    default: return from_doubles(std::vector<double>(static_cast<std::size_t>(shape.numel()), draw.a), shape);
  }
}

// Inverse normal distribution function: Winitzki's approximation and two of Halley's steps, after which doubles are
// exact to a few ulps where it matters.
double normal_quantile(double p) {
  p = std::clamp(p, 1e-300, 1 - 1e-16);
  constexpr double a = 0.147, pi = 3.14159265358979323846;
  const double tail = std::log(4 * p * (1 - p)), half = 2 / (pi * a) + tail / 2;
  double z = std::sqrt(2.0) * std::copysign(std::sqrt(std::sqrt(half * half - tail / a) - half), p - 0.5);
  for (int step = 0; step < 2; ++step) {
    const double off = 0.5 * std::erfc(-z / std::sqrt(2.0)) - p;
    const double newton = off * std::sqrt(2 * pi) * std::exp(z * z / 2);
    z -= newton / (1 + z * newton / 2);
  }
  return z;
}

Tensor truncated(const Shape& shape, const Init& init) {
  check(init.bound > 0, "[init] expected a bound above 0 for truncated_normal, got {}", init.bound);
  const double below = 0.5 * std::erfc(init.bound / std::sqrt(2.0));
  std::vector<double> values = starling::uniform(shape, {.dtype = DType::f64}).to_vector();
  parallel_for(static_cast<std::int64_t>(values.size()), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const double z = normal_quantile(below + values[i] * (1 - 2 * below));
      values[i] = init.mean + init.stddev * std::clamp(z, -init.bound, init.bound);
    }
  });
  return from_doubles(values, shape);
}

struct Matrix {
  std::int64_t rows, columns;
};
Matrix as_matrix(const Shape& shape, InitKind kind) {
  check(shape.rank() >= 2 && shape.numel() > 0, "[init] expected a matrix for {}, got {}", name(kind),
        to_string(shape));
  return {shape[0], shape.numel() / shape[0]};
}

Tensor orthogonal_of(const Shape& shape, const Init& init) {
  const Matrix m = as_matrix(shape, init.kind);
  std::vector<double> values = starling::normal({m.rows, m.columns}, {.dtype = DType::f64}).to_vector();
  orthonormalise(values, m.rows, m.columns);
  for (double& v : values) v *= init.gain;
  return from_doubles(values, shape);
}

// Zeroes an exact count of random elements in every column: those with the smallest of further random numbers.
Tensor sparse_of(const Shape& shape, const Init& init) {
  check(init.zeros >= 0 && init.zeros <= 1, "[init] expected a share of zeros in [0, 1] for sparse, got {}",
        init.zeros);
  const Matrix m = as_matrix(shape, init.kind);
  const auto rows = static_cast<std::size_t>(m.rows), columns = static_cast<std::size_t>(m.columns);
  std::vector<double> values = starling::normal({m.rows, m.columns}, {.stddev = init.stddev}).to_vector();
  const std::vector<double> lots = starling::uniform({m.columns, m.rows}, {.dtype = DType::f64}).to_vector();
  const auto none = static_cast<std::size_t>(std::ceil(init.zeros * static_cast<double>(rows)));
  std::vector<std::size_t> order(rows);
  for (std::size_t c = 0; c < columns; ++c) {
    std::iota(order.begin(), order.end(), 0);
    const double* lot = lots.data() + c * rows;
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return std::pair(lot[a], a) < std::pair(lot[b], b); });
    for (std::size_t i = 0; i < none; ++i) values[order[i] * columns + c] = 0;
  }
  return from_doubles(values, shape);
}

Tensor identity_of(const Shape& shape) {
  check(shape.rank() == 2, "[init] expected a matrix for identity, got {}", to_string(shape));
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t i = 0; i < std::min(shape[0], shape[1]); ++i)
    values[static_cast<std::size_t>(i * shape[1] + i)] = 1;
  return from_doubles(values, shape);
}

// Weight of a convolution that passes channel i through to output i where both exist: 1 in the middle of the kernel.
Tensor dirac_of(const Shape& shape, const Init& init) {
  check(shape.rank() >= 3 && shape.numel() > 0 && init.groups > 0 && shape[0] % init.groups == 0,
        "[init] expected the weight [out, in, kernel..] of a convolution, out a multiple of {} groups, for dirac, "
        "got {}",
        init.groups, to_string(shape));
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  const Shape strides = contiguous_strides(shape);
  std::int64_t middle = 0;
  for (int d = 2; d < shape.rank(); ++d) middle += shape[d] / 2 * strides[d];
  const std::int64_t block = shape[0] / init.groups;
  for (std::int64_t out = 0; out < shape[0]; ++out) {
    const std::int64_t in = out % block;
    if (in < shape[1]) values[static_cast<std::size_t>(out * strides[0] + in * strides[1] + middle)] = 1;
  }
  return from_doubles(values, shape);
}

constexpr std::array<const char*, 15> kNames = {"standard",         "constant",       "uniform",       "normal",
                                                "truncated_normal", "xavier_uniform", "xavier_normal", "he_uniform",
                                                "he_normal",        "lecun_uniform",  "lecun_normal",  "orthogonal",
                                                "sparse",           "identity",       "dirac"};

}  // namespace

const char* name(InitKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

namespace {

Tensor made(const Shape& shape, const Init& init) {
  if (const auto draw = draw_of(shape, init)) return drawn(shape, *draw);
  switch (init.kind) {
    case InitKind::truncated_normal: return truncated(shape, init);
    case InitKind::orthogonal: return orthogonal_of(shape, init);
    case InitKind::sparse: return sparse_of(shape, init);
    case InitKind::identity: return identity_of(shape);
    case InitKind::dirac: return dirac_of(shape, init);
    default: fail("[init] expected a way to begin other than 'standard', which each layer has of its own");
  }
}

// Random calls that made() takes.
int sites_of(InitKind kind) {
  switch (kind) {
    case InitKind::constant:
    case InitKind::identity:
    case InitKind::dirac: return 0;
    case InitKind::sparse: return 2;
    default: return 1;
  }
}

}  // namespace

Tensor initial(const Shape& shape, const Init& init) {
  DeferredWeights* const deferred = DeferredWeights::innermost();
  if (deferred == nullptr || init.kind == InitKind::standard) return made(shape, init);
  return deferred->defer(shape, draw_of(shape, init), sites_of(init.kind), [=] { return made(shape, init); });
}

Tensor initial(const Shape& shape, const Init& init, double bound) {
  return initial(shape, init.kind == InitKind::standard ? Init::uniform(-bound, bound) : init);
}

bool matches(std::string_view name, std::string_view pattern) { return glob_matches(pattern, name); }

std::size_t initialise(Module& net, const std::string& pattern, const Init& init) {
  const NoGrad no_grad;
  std::size_t count = 0;
  for (const auto& [name, parameter] : net.named_parameters()) {
    if (!matches(name, pattern)) continue;
    const NameScope scope("initialise " + name);  // values depend on the name, not on what else is drawn
    ++count;
    if (auto* deferred = DeferredWeights::innermost(); deferred && deferred->holds(parameter)) {
      deferred->begin_as(parameter, initial(parameter.shape(), init));
      continue;
    }
    const DeferredWeights::Pause now;
    const Tensor value = cast(initial(parameter.shape(), init), parameter.dtype());
    assign(parameter, to(value, parameter.device()));
  }
  check(count > 0, "[initialise] expected a pattern that matches names of parameters, got '{}'", pattern);
  return count;
}

}  // namespace starling::nn
