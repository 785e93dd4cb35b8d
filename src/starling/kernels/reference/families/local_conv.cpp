#include "starling/ops/api/local_conv.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/conv_windows.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_local(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::LocalConv2dAttrs>();
  const Shape &x = request.in[0].shape, &w = request.in[1].shape;
  const ConvGeometry g = conv_geometry(x, Shape{w[1], x[1], a.kernel[0], a.kernel[1]},
                                       op::Conv2dAttrs{a.stride, a.padding, a.dilation, 1, {}}, "local_conv2d");
  const reference::Sums all(g.y);
  const bool biased = request.in.size() == 3;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto *from = static_cast<const T*>(launch.in[0]), *weight = static_cast<const T*>(launch.in[1]);
      double* sums = all.clear(launch.scratch);
      const std::int64_t one = g.y[1] * g.taps();  // weights per position
      reference::each_product(g, [&](auto ix, auto iw, auto iy) {
        sums[iy] += static_cast<double>(from[ix]) * static_cast<double>(weight[iy % g.positions() * one + iw]);
      });
      for (std::int64_t i = 0; i < all.count; ++i) {
        const std::int64_t image = g.y[1] * g.positions();
        const double bias = biased ? static_cast<double>(static_cast<const T*>(launch.in[2])[i % image]) : 0.0;
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i] + bias);
      }
    });
  });
}

// The sums of a gradient: f(index in x, index in w, index in y) says which product is added to which.
template <class F>
std::unique_ptr<Plan> plan_sums(const PlanRequest& request, const Shape& x, const Shape& w, F add) {
  const auto& a = request.attrs.as<op::LocalConv2dGradAttrs>();
  const ConvGeometry g = conv_geometry(x, Shape{w[1], x[1], a.kernel[0], a.kernel[1]},
                                       op::Conv2dAttrs{a.stride, a.padding, a.dilation, 1, {}}, "local_conv2d");
  const reference::Sums all(a.shape);
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto *dy = static_cast<const T*>(launch.in[0]), *other = static_cast<const T*>(launch.in[1]);
      double* sums = all.clear(launch.scratch);
      const std::int64_t one = g.y[1] * g.taps();  // weights per position
      reference::each_product(
          g, [&](auto ix, auto iw, auto iy) { add(sums, dy, other, ix, iy % g.positions() * one + iw, iy); });
      for (std::int64_t i = 0; i < all.count; ++i) static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i]);
    });
  });
}

std::unique_ptr<Plan> plan_backward_input(const PlanRequest& request) {
  const auto add = [](double* sums, const auto* dy, const auto* weight, auto ix, auto iw, auto iy) {
    sums[ix] += static_cast<double>(dy[iy]) * static_cast<double>(weight[iw]);
  };
  return plan_sums(request, request.out[0].shape, request.in[1].shape, add);
}

std::unique_ptr<Plan> plan_backward_weight(const PlanRequest& request) {
  const auto add = [](double* sums, const auto* dy, const auto* x, auto ix, auto iw, auto iy) {
    sums[iw] += static_cast<double>(dy[iy]) * static_cast<double>(x[ix]);
  };
  return plan_sums(request, request.in[1].shape, request.out[0].shape, add);
}

}  // namespace

void register_reference_local_conv(KernelTable& table) {
  table.add("local_conv2d", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_local));
  table.add("local_conv2d_backward_input", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, plan_backward_input));
  table.add("local_conv2d_backward_weight", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, plan_backward_weight));
}

}  // namespace starling::kernels
