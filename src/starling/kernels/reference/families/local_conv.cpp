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

}  // namespace

void register_reference_local_conv(KernelTable& table) {
  table.add("local_conv2d", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_local));
}

}  // namespace starling::kernels
