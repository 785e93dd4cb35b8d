#include "starling/kernels/reference/ctc.h"

#include <cmath>
#include <vector>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/loss.h"

namespace starling::kernels {
namespace {

using reference::CtcSample;
using reference::CtcShape;
using reference::for_floats;

CtcShape shape_of(const PlanRequest& request) {
  const Shape& x = request.in[0].shape;
  return {x[0],
          x[1],
          x[2],
          request.in[1].shape[1],
          request.attrs.as<op::CtcAttrs>().blank,
          static_cast<int>(request.in.size()) - 4};
}

template <class T>
CtcSample<T> sample(const CtcShape& shape, std::int64_t i, const Launch& launch, double* work) {
  return {shape,
          i,
          static_cast<const T*>(launch.in[0]),
          static_cast<const std::int64_t*>(launch.in[1]),
          static_cast<const std::int64_t*>(launch.in[2]),
          static_cast<const std::int64_t*>(launch.in[3]),
          work};
}

std::unique_ptr<Plan> plan_loss(const PlanRequest& request) {
  const bool finite = request.attrs.as<op::CtcAttrs>().zero_infinity;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=, shape = shape_of(request)](const Launch& launch) {
      std::vector<double> work(static_cast<std::size_t>(shape.batch == 0 ? 0 : shape.workspace()));
      for (std::int64_t i = 0; i < shape.batch; ++i) {
        const double loss = sample<T>(shape, i, launch, work.data()).loss();
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(finite && std::isinf(loss) ? 0 : loss);
      }
    });
  });
}

std::unique_ptr<Plan> plan_derivative(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([shape = shape_of(request), n = request.out[0].shape.numel()](const Launch& launch) {
      auto* dx = static_cast<T*>(launch.out[0]);
      std::fill_n(dx, n, T{0});
      std::vector<double> work(static_cast<std::size_t>(shape.batch == 0 ? 0 : shape.workspace()));
      std::vector<const T*> directions;
      directions.reserve(static_cast<std::size_t>(shape.directions));
      for (int d = 0; d < shape.directions; ++d) directions.push_back(static_cast<const T*>(launch.in[4 + d]));
      for (std::int64_t i = 0; i < shape.batch; ++i)
        sample<T>(shape, i, launch, work.data()).derivative(directions, dx);
    });
  });
}

}  // namespace

void register_reference_ctc(KernelTable& table) {
  table.add("ctc_loss", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_loss));
  table.add("ctc_derivative", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_derivative));
}

}  // namespace starling::kernels
