#include "starling/ops/def/update.h"

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Scalars of a step.
struct Moment {
  double lr = 0, t = 1, mu = 1, factor = 1;
  bool skip = false;
};

template <class A>
Moment read_moment(const A& attrs, DType mu, const Launch& launch, std::size_t at) {
  Moment now;
  now.lr = static_cast<double>(*static_cast<const float*>(launch.in[at++]));
  if (A::kScalars > 1) now.t = static_cast<double>(*static_cast<const std::int64_t*>(launch.in[at++]));
  if (A::kScalars > 2) now.mu = reference::read<double>(mu, launch.in[at++], 0);
  if (attrs.scaled) now.factor = static_cast<double>(*static_cast<const float*>(launch.in[at++]));
  if (attrs.guarded) now.skip = *static_cast<const bool*>(launch.in[at++]);
  return now;
}

// State of one element, updated as defined in ops/def/update.h: x[0] is the weight, the states follow.
using Element = std::array<double, 4>;

// Norms over the whole tensor, for LAMB and LARS.
struct Norms {
  double weights = 0;
  double others = 0;
};

void step(const op::MomentumUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  g += a.weight_decay * x[0];
  double direction = g;
  if (a.states() > 0) {
    x[1] = a.momentum * x[1] + g;
    direction = a.nesterov ? g + a.momentum * x[1] : x[1];
  }
  x[0] -= now.lr * direction;
}

void step(const op::AdagradUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  g += a.weight_decay * x[0];
  x[1] += g * g;
  x[0] -= now.lr / (1 + (now.t - 1) * a.lr_decay) * g / (std::sqrt(x[1]) + a.eps);
}

void step(const op::AdadeltaUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  g += a.weight_decay * x[0];
  x[1] = a.rho * x[1] + (1 - a.rho) * g * g;
  const double u = std::sqrt(x[2] + a.eps) / std::sqrt(x[1] + a.eps) * g;
  x[2] = a.rho * x[2] + (1 - a.rho) * u * u;
  x[0] -= now.lr * u;
}

void step(const op::RmspropUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  g += a.weight_decay * x[0];
  x[1] = a.alpha * x[1] + (1 - a.alpha) * g * g;
  double mean = 0;
  if (a.centered) mean = x[2] = a.alpha * x[2] + (1 - a.alpha) * g;
  const double variance = x[1] - mean * mean;
  double u = g / (std::sqrt(variance < 0 ? 0 : variance) + a.eps);
  if (a.momentum != 0) {
    double& buffer = x[a.states()];
    u = buffer = a.momentum * buffer + u;
  }
  x[0] -= now.lr * u;
}

void step(const op::AdamUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  if (a.decoupled)
    x[0] -= now.lr * a.weight_decay * x[0];
  else
    g += a.weight_decay * x[0];
  x[1] = a.beta1 * x[1] + (1 - a.beta1) * g;
  x[2] = a.beta2 * x[2] + (1 - a.beta2) * g * g;
  double second = x[2];
  if (a.amsgrad) second = x[3] = std::max(x[3], x[2]);
  const double m = x[1] / (1 - std::pow(a.beta1, now.t)), v = second / (1 - std::pow(a.beta2, now.t));
  x[0] -= now.lr * m / (std::sqrt(v) + a.eps);
}

void step(const op::AdamaxUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  g += a.weight_decay * x[0];
  x[1] = a.beta1 * x[1] + (1 - a.beta1) * g;
  x[2] = std::max(a.beta2 * x[2], std::abs(g) + a.eps);
  x[0] -= now.lr / (1 - std::pow(a.beta1, now.t)) * x[1] / x[2];
}

void step(const op::NadamUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  const auto mu = [&](double t) { return a.beta1 * (1 - 0.5 * std::pow(0.96, t * a.momentum_decay)); };
  if (a.decoupled)
    x[0] -= now.lr * a.weight_decay * x[0];
  else
    g += a.weight_decay * x[0];
  x[1] = a.beta1 * x[1] + (1 - a.beta1) * g;
  x[2] = a.beta2 * x[2] + (1 - a.beta2) * g * g;
  const double deviation = std::sqrt(x[2] / (1 - std::pow(a.beta2, now.t))) + a.eps, next = mu(now.t + 1);
  x[0] -= now.lr * (1 - mu(now.t)) / (1 - now.mu) * g / deviation;
  x[0] -= now.lr * next / (1 - now.mu * next) * x[1] / deviation;
}

void step(const op::LionUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms&) {
  const double c = a.beta1 * x[1] + (1 - a.beta1) * g;
  const double u = c > 0 ? 1 : c < 0 ? -1 : c;
  x[1] = a.beta2 * x[1] + (1 - a.beta2) * g;
  x[0] -= now.lr * (u + a.weight_decay * x[0]);
}

void step(const op::AverageUpdateAttrs&, const Moment& now, Element& x, double g, const Norms&) {
  x[0] = (1 - now.lr) * x[0] + now.lr * g;
}

double direction(const op::LambUpdateAttrs& a, const Moment& now, Element& x, double g) {
  x[1] = a.beta1 * x[1] + (1 - a.beta1) * g;
  x[2] = a.beta2 * x[2] + (1 - a.beta2) * g * g;
  const double m = x[1] / (1 - std::pow(a.beta1, now.t)), v = x[2] / (1 - std::pow(a.beta2, now.t));
  return m / (std::sqrt(v) + a.eps) + a.weight_decay * x[0];
}

void step(const op::LambUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms& norms) {
  const double ratio = norms.weights > 0 && norms.others > 0 ? norms.weights / norms.others : 1;
  const double u = direction(a, now, x, g);
  x[0] -= now.lr * ratio * u;
}

void step(const op::LarsUpdateAttrs& a, const Moment& now, Element& x, double g, const Norms& norms) {
  const double ratio = norms.weights > 0 && norms.others > 0
                           ? a.trust * norms.weights / (norms.others + a.weight_decay * norms.weights + a.eps)
                           : 1;
  x[1] = a.momentum * x[1] + now.lr * ratio * (g + a.weight_decay * x[0]);
  x[0] -= x[1];
}

// Value whose norm is taken besides the weights': the gradient by default.
template <class A>
double measured(const A&, const Moment&, Element, double g) {
  return g;
}
double measured(const op::LambUpdateAttrs& a, const Moment& now, Element x, double g) {
  return direction(a, now, x, g);
}

// Operands of one tensor among n: targets k · n + i, then the gradient.
template <class T>
struct Operands {
  std::vector<const T*> from;
  std::vector<T*> to;

  Operands(const Launch& launch, std::size_t targets, std::size_t n, std::size_t i) {
    for (std::size_t k = 0; k < targets; ++k) {
      from.push_back(static_cast<const T*>(launch.in[k * n + i]));
      to.push_back(static_cast<T*>(launch.out[k * n + i]));
    }
  }
  Element read(std::int64_t at) const {
    Element x{};
    for (std::size_t k = 0; k < from.size(); ++k) x[k] = static_cast<double>(from[k][at]);
    return x;
  }
  void write(std::int64_t at, const Element& x) const {
    for (std::size_t k = 0; k < to.size(); ++k) to[k][at] = static_cast<T>(x[k]);
  }
};

template <class T, class A>
void update_one(const A& attrs, const Moment& now, const Operands<T>& x, const T* gradient, std::int64_t size) {
  const auto g = [&](std::int64_t e) { return now.factor * static_cast<double>(gradient[e]); };
  Norms norms;
  for (std::int64_t e = 0; e < size; ++e) {
    const Element old = x.read(e);
    norms.weights += old[0] * old[0];
    const double other = measured(attrs, now, old, g(e));
    norms.others += other * other;
  }
  norms = {std::sqrt(norms.weights), std::sqrt(norms.others)};
  for (std::int64_t e = 0; e < size; ++e) {
    Element element = x.read(e);
    if (!now.skip) step(attrs, now, element, g(e), norms);
    x.write(e, element);
  }
}

template <class A>
std::unique_ptr<Plan> plan_update(const PlanRequest& request) {
  const A attrs = request.attrs.as<A>();
  const op::UpdateLayout layout = op::update_layout(attrs);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < layout.tensors(request.in.size()); ++i) sizes.push_back(request.in[i].shape.numel());
  const std::size_t scalars = sizes.size() * (layout.targets + 1);
  const DType mu = A::kScalars > 2 ? request.in[scalars + 2].dtype : DType::f64;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const std::size_t n = sizes.size();
      const Moment now = read_moment(attrs, mu, launch, n * (layout.targets + 1));
      for (std::size_t i = 0; i < n; ++i) {
        const auto* gradient = static_cast<const T*>(launch.in[n * layout.targets + i]);
        update_one(attrs, now, Operands<T>(launch, layout.targets, n, i), gradient, sizes[i]);
      }
    });
  });
}

template <class A>
std::unique_ptr<Plan> plan_update_rows(const PlanRequest& request) {
  const A attrs = request.attrs.as<A>();
  const std::size_t targets = op::update_layout(attrs).targets;
  const Shape& w = request.in[0].shape;
  const std::int64_t all = w.numel(), rows = w[0], n = request.in[targets].shape[0];
  const std::int64_t width = rows > 0 ? all / rows : 0;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const Operands<T> x(launch, targets, 1, 0);
      for (std::int64_t e = 0; e < all; ++e) x.write(e, x.read(e));
      const Moment now = read_moment(attrs, DType::f64, launch, targets + 2);
      std::map<std::int64_t, std::vector<double>> sums;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto row = static_cast<const std::int64_t*>(launch.in[targets])[i];
        check(row >= 0 && row < rows, "[{}_rows] expected rows in [0, {}), got {} at position {}", A::kName, rows, row,
              i);
        auto& sum = sums[row];
        sum.resize(static_cast<std::size_t>(width));
        for (std::int64_t j = 0; j < width; ++j)
          sum[static_cast<std::size_t>(j)] +=
              static_cast<double>(static_cast<const T*>(launch.in[targets + 1])[i * width + j]);
      }
      if (now.skip) return;
      for (const auto& [row, sum] : sums) {
        for (std::int64_t j = 0; j < width; ++j) {
          Element element = x.read(row * width + j);
          step(attrs, now, element, now.factor * sum[static_cast<std::size_t>(j)], {});
          x.write(row * width + j, element);
        }
      }
    });
  });
}

}  // namespace

void register_reference_update(KernelTable& table) {
  op::for_update_rules(
      [&]<class A>() { table.add(A::kName, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_update<A>)); });
  op::for_row_update_rules([&]<class A>() {
    table.add(std::string(A::kName) + "_rows", DeviceKind::cpu,
              reference::kernel(Accepts::contiguous, plan_update_rows<A>));
  });
}

}  // namespace starling::kernels
