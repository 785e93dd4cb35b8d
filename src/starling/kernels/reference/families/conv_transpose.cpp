#include "starling/ops/api/conv_transpose.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/conv_windows.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

// Transposed convolution: the convolution from the result y to the operand x, with x and y exchanged.
template <class A>
std::unique_ptr<Plan> plan_transpose(const PlanRequest& request) {
  const ConvGeometry g =
      conv_geometry(request.out[0].shape, request.in[1].shape, request.attrs.as<A>(), request.op.name.c_str());
  const reference::Sums all(g.x);
  const std::int64_t plane = g.x[2] * g.x[3] * g.x[4];
  const bool biased = request.in.size() == 3;
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto *x = static_cast<const T*>(launch.in[0]), *w = static_cast<const T*>(launch.in[1]);
      double* sums = all.clear(launch.scratch);
      reference::each_product(
          g, [&](auto iy, auto iw, auto ix) { sums[iy] += static_cast<double>(x[ix]) * static_cast<double>(w[iw]); });
      for (std::int64_t i = 0; i < all.count; ++i) {
        const double bias = biased ? static_cast<double>(static_cast<const T*>(launch.in[2])[i / plane % g.x[1]]) : 0.0;
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i] + bias);
      }
    });
  });
}

}  // namespace

void register_reference_conv_transpose(KernelTable& table) {
  const auto add = [&](const char* op, std::unique_ptr<Plan> (*plan)(const PlanRequest&)) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("conv_transpose1d", plan_transpose<op::ConvTranspose1dAttrs>);
  add("conv_transpose2d", plan_transpose<op::ConvTranspose2dAttrs>);
  add("conv_transpose3d", plan_transpose<op::ConvTranspose3dAttrs>);
}

}  // namespace starling::kernels
