#include "starling/ops/def/attrs/shared_update.h"

#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/learning_rate.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/product.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_matmul_sgd_rows(const PlanRequest& request) {
  const auto a = request.attrs.as<op::RowsSgdAttrs>();
  const auto product = reference::make_product(request.in[2], request.in[3], true, false);
  const std::int64_t skipped = a.begin * request.in[0].shape[1], n = request.in[0].shape.numel();
  const DType rate = request.in[4].dtype;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const double lr = read_rate(rate, launch.in[4]);
      for (std::size_t i : {0, 1}) copy_bytes(launch.out[i], launch.in[i], static_cast<std::size_t>(n) * sizeof(T));
      auto *w = static_cast<T*>(launch.out[0]) + skipped, *v = static_cast<T*>(launch.out[1]) + skipped;
      reference::multiply(product, static_cast<const T*>(launch.in[2]), static_cast<const T*>(launch.in[3]),
                          [&](std::int64_t i, double g) {
                            const double decayed = g + a.weight_decay * static_cast<double>(w[i]);
                            const double velocity = a.momentum * static_cast<double>(v[i]) + decayed;
                            w[i] = static_cast<T>(static_cast<double>(w[i]) - lr * velocity);
                            v[i] = static_cast<T>(velocity);
                          });
    });
  });
}

}  // namespace

void register_reference_shared_update(KernelTable& table) {
  table.add("matmul_sgd_rows", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_matmul_sgd_rows));
}

}  // namespace starling::kernels
