#include "starling/ops/def/attrs/update.h"

#include <cmath>
#include <map>
#include <vector>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"
#include "starling/kernels/reference/element.h"
#include "update_rules.gen.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

struct Moment : op::UpdateMoment {
  bool skip = false;
};

template <class A>
Moment read_moment(const A& attrs, DType lr, DType mu, const Launch& launch, std::size_t at) {
  Moment now;
  now.lr = read_rate(lr, launch.in[at++]);
  if (A::kScalars > 1) now.t = static_cast<double>(*static_cast<const std::int64_t*>(launch.in[at++]));
  if (A::kScalars > 2) now.mu = reference::read<double>(mu, launch.in[at++], 0);
  if (attrs.scaled) now.factor = static_cast<double>(*static_cast<const float*>(launch.in[at++]));
  if (attrs.guarded) now.skip = *static_cast<const bool*>(launch.in[at++]);
  return now;
}

// Value whose norm is taken besides the weights': the gradient by default.
template <class A>
double measured(const A& attrs, const Moment& now, const op::UpdateElement& x, double g) {
  if constexpr (requires { attrs.measured(now, x, g); })
    return attrs.measured(now, x, g);
  else
    return g;
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
  op::UpdateElement read(std::int64_t at) const {
    op::UpdateElement x{};
    for (std::size_t k = 0; k < from.size(); ++k) x[k] = static_cast<double>(from[k][at]);
    return x;
  }
  void write(std::int64_t at, const op::UpdateElement& x) const {
    for (std::size_t k = 0; k < to.size(); ++k) to[k][at] = static_cast<T>(x[k]);
  }
};

template <class T, class A>
void update_one(const A& attrs, const Moment& now, const Operands<T>& x, const T* gradient, std::int64_t size) {
  const auto g = [&](std::int64_t e) { return now.factor * static_cast<double>(gradient[e]); };
  op::UpdateNorms norms;
  for (std::int64_t e = 0; e < size; ++e) {
    const op::UpdateElement old = x.read(e);
    norms.weights += old[0] * old[0];
    const double other = measured(attrs, now, old, g(e));
    norms.others += other * other;
  }
  norms = {std::sqrt(norms.weights), std::sqrt(norms.others)};
  for (std::int64_t e = 0; e < size; ++e) {
    op::UpdateElement element = x.read(e);
    if (!now.skip) attrs.step(now, element, g(e), norms);
    x.write(e, element);
  }
}

template <class A>
std::unique_ptr<Plan> plan_update(const PlanRequest& request) {
  const A attrs = request.attrs.as<A>();
  const op::UpdateOperands operands = op::update_operands(attrs);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < operands.tensors(request.in.size()); ++i) sizes.push_back(request.in[i].shape.numel());
  const std::size_t scalars = sizes.size() * (operands.targets + 1);
  const DType lr = request.in[scalars].dtype, mu = A::kScalars > 2 ? request.in[scalars + 2].dtype : DType::f64;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const std::size_t n = sizes.size();
      const Moment now = read_moment(attrs, lr, mu, launch, n * (operands.targets + 1));
      for (std::size_t i = 0; i < n; ++i) {
        const auto* gradient = static_cast<const T*>(launch.in[n * operands.targets + i]);
        update_one(attrs, now, Operands<T>(launch, operands.targets, n, i), gradient, sizes[i]);
      }
    });
  });
}

template <class A>
std::unique_ptr<Plan> plan_update_rows(const PlanRequest& request) {
  const A attrs = request.attrs.as<A>();
  const std::size_t targets = op::update_operands(attrs).targets;
  const Shape& w = request.in[0].shape;
  const std::int64_t all = w.numel(), rows = w[0], n = request.in[targets].shape[0];
  const std::int64_t width = rows > 0 ? all / rows : 0;
  const DType lr = request.in[targets + 2].dtype;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const Operands<T> x(launch, targets, 1, 0);
      for (std::int64_t e = 0; e < all; ++e) x.write(e, x.read(e));
      const Moment now = read_moment(attrs, lr, DType::f64, launch, targets + 2);
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
          op::UpdateElement element = x.read(row * width + j);
          attrs.step(now, element, now.factor * sum[static_cast<std::size_t>(j)], {});
          x.write(row * width + j, element);
        }
      }
    });
  });
}

}  // namespace

void register_reference_update(KernelTable& table) {
  op::for_update_rules([&]<class A>() {
    table.add(A::kName, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_update<A>));
    if constexpr (op::kHasRows<A>)
      table.add(std::string(A::kName) + "_rows", DeviceKind::cpu,
                reference::kernel(Accepts::contiguous, plan_update_rows<A>));
  });
}

}  // namespace starling::kernels
