#include "starling/ops/api/state.h"

#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/product.h"
#include "starling/ops/def/attrs/state.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// SGD step of one element.
template <class T>
struct Step {
  double momentum, decay, lr;
  bool nesterov;

  void operator()(const T& w, const T& v, double gradient, T& new_w, T& new_v) const {
    const double g = gradient + decay * static_cast<double>(w);
    const double velocity = momentum * static_cast<double>(v) + g;
    new_w = static_cast<T>(static_cast<double>(w) - lr * (nesterov ? g + momentum * velocity : velocity));
    new_v = static_cast<T>(velocity);
  }
};

// SGD (w…, v…, g…, lr) → (w…, v…); sgd_update is the case of one tensor.
std::unique_ptr<Plan> plan_sgd(const PlanRequest& request) {
  const auto a = request.attrs.as<op::SgdAttrs>();
  const std::size_t count = request.in.size() / 3;
  const DType rate = request.in.back().dtype;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) sizes.push_back(request.in[i].shape.numel());
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const Step<T> step{a.momentum, a.weight_decay, read_rate(rate, launch.in[3 * count]), a.nesterov};
      for (std::size_t i = 0; i < count; ++i) {
        const auto *w = static_cast<const T*>(launch.in[i]), *v = static_cast<const T*>(launch.in[count + i]);
        const auto* g = static_cast<const T*>(launch.in[2 * count + i]);
        auto *new_w = static_cast<T*>(launch.out[i]), *new_v = static_cast<T*>(launch.out[count + i]);
        for (std::int64_t e = 0; e < sizes[i]; ++e) step(w[e], v[e], static_cast<double>(g[e]), new_w[e], new_v[e]);
      }
    });
  });
}

std::unique_ptr<Plan> plan_matmul_sgd(const PlanRequest& request) {
  const auto a = request.attrs.as<op::MatmulSgdAttrs>();
  const auto product = reference::make_product(request.in[2], request.in[3], a.trans_a, a.trans_b);
  const DType rate = request.in[4].dtype;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const Step<T> step{a.momentum, a.weight_decay, read_rate(rate, launch.in[4]), false};
      const auto *w = static_cast<const T*>(launch.in[0]), *v = static_cast<const T*>(launch.in[1]);
      auto *new_w = static_cast<T*>(launch.out[0]), *new_v = static_cast<T*>(launch.out[1]);
      reference::multiply(product, static_cast<const T*>(launch.in[2]), static_cast<const T*>(launch.in[3]),
                          [&](std::int64_t i, double g) { step(w[i], v[i], g, new_w[i], new_v[i]); });
    });
  });
}

}  // namespace

void register_reference_state(KernelTable& table) {
  table.add("sgd_update", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_sgd));
  table.add("sgd_update_many", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_sgd));
  table.add("matmul_sgd", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_matmul_sgd));
}

}  // namespace starling::kernels
