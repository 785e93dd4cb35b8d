#include <cmath>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/launch_args.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/normalize.h"
#include "starling/ops/api/normalize.h"

namespace starling::kernels {
namespace {

// Calls f(offset, channel) for every element of x [n, c, ...].
template <class F>
void for_channels(const Shape& shape, F&& f) {
  std::int64_t inside = 1;
  for (int d = 2; d < shape.rank(); ++d) inside *= shape[d];
  for (std::int64_t i = 0; i < shape.numel(); ++i) f(i, i / inside % shape[1]);
}

std::unique_ptr<Plan> plan_infer(const PlanRequest& request) {
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([eps, shape = request.in[0].shape, operands = request.in.size()](const Launch& launch) {
      for_channels(shape, [&](std::int64_t i, std::int64_t c) {
        double y = (input<T>(launch, 0)[i] - static_cast<double>(input<T>(launch, 1)[c])) /
                   std::sqrt(input<T>(launch, 2)[c] + eps);
        if (operands > 3) y *= input<T>(launch, 3)[c];
        if (operands > 4) y += input<T>(launch, 4)[c];
        output<T>(launch, 0)[i] = static_cast<T>(y);
      });
    });
  });
}

std::unique_ptr<Plan> plan_infer_backward(const PlanRequest& request) {
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([eps, shape = request.in[0].shape, weighted = request.in.size() > 4](const Launch& launch) {
      const auto channels = static_cast<std::size_t>(shape[1]);
      std::vector<double> sum(channels), dot(channels);
      for_channels(shape, [&](std::int64_t i, std::int64_t c) {
        const double dy = input<T>(launch, 0)[i], rstd = 1 / std::sqrt(input<T>(launch, 3)[c] + eps);
        sum[static_cast<std::size_t>(c)] += dy;
        dot[static_cast<std::size_t>(c)] +=
            dy * (input<T>(launch, 1)[i] - static_cast<double>(input<T>(launch, 2)[c])) * rstd;
        output<T>(launch, 0)[i] = static_cast<T>(dy * rstd * (weighted ? input<T>(launch, 4)[c] : T{1}));
      });
      for (std::size_t c = 0; c < channels; ++c) {
        output<T>(launch, 1)[c] = static_cast<T>(sum[c]);
        output<T>(launch, 2)[c] = static_cast<T>(dot[c]);
      }
    });
  });
}

std::unique_ptr<Plan> plan_squares(const PlanRequest& request) {
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([shape = request.in[0].shape](const Launch& launch) {
      std::vector<double> total(static_cast<std::size_t>(shape[1]));
      for_channels(shape, [&](std::int64_t i, std::int64_t c) {
        const double apart = input<T>(launch, 0)[i] - static_cast<double>(input<T>(launch, 1)[c]);
        total[static_cast<std::size_t>(c)] += apart * apart;
      });
      for (std::size_t c = 0; c < total.size(); ++c) output<T>(launch, 0)[c] = static_cast<T>(total[c]);
    });
  });
}

}  // namespace

void register_reference_batch_norm(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  reference::add_norm(table, "batch_norm_train");
  add("batch_norm_infer", plan_infer);
  add("batch_norm_infer_backward", plan_infer_backward);
  add("channel_squares", plan_squares);
}

}  // namespace starling::kernels
