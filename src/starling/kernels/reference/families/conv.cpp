#include "starling/ops/api/conv.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/conv_windows.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/product.h"

namespace starling::kernels {
namespace {

using reference::each_product;
using reference::for_floats;
using reference::Sums;

template <class A>
std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const auto& a = request.attrs.as<A>();
  const ConvGeometry g = conv_geometry(request.in[0].shape, request.in[1].shape, a, request.op.name.c_str());
  const Sums all(g.y);
  const auto activate = reference::activation(a.activation);
  const bool biased = request.in.size() >= 3, residual = request.in.size() > 3;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto *x = static_cast<const T*>(launch.in[0]), *w = static_cast<const T*>(launch.in[1]);
      double* sums = all.clear(launch.scratch);
      each_product(
          g, [&](auto ix, auto iw, auto iy) { sums[iy] += static_cast<double>(x[ix]) * static_cast<double>(w[iw]); });
      for (std::int64_t i = 0; i < all.count; ++i) {
        const double bias =
            biased ? static_cast<double>(static_cast<const T*>(launch.in[2])[i / g.positions() % g.y[1]]) : 0.0;
        const double more = residual ? static_cast<double>(static_cast<const T*>(launch.in[3])[i]) : 0.0;
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(activate(sums[i] + bias + more));
      }
    });
  });
}

template <class G, bool of_input>
std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  const auto& a = request.attrs.as<G>();
  const Shape& other = request.in[1].shape;
  const ConvGeometry g =
      conv_geometry(of_input ? a.shape : other, of_input ? other : a.shape, a, request.op.name.c_str());
  const Sums all(a.shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto *dy = static_cast<const T*>(launch.in[0]), *by = static_cast<const T*>(launch.in[1]);
      double* sums = all.clear(launch.scratch);
      each_product(g, [&](auto ix, auto iw, auto iy) {
        sums[of_input ? ix : iw] += static_cast<double>(dy[iy]) * static_cast<double>(by[of_input ? iw : ix]);
      });
      for (std::int64_t i = 0; i < all.count; ++i) static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i]);
    });
  });
}

}  // namespace

void register_reference_conv(KernelTable& table) {
  const auto add = [&](const char* op, std::unique_ptr<Plan> (*plan)(const PlanRequest&)) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("conv1d", plan_forward<op::Conv1dAttrs>);
  add("conv2d", plan_forward<op::Conv2dAttrs>);
  add("conv3d", plan_forward<op::Conv3dAttrs>);
  add("conv2d_residual", plan_forward<op::Conv2dAttrs>);
  add("conv2d_backward_input", plan_backward<op::Conv2dGradAttrs, true>);
  add("conv3d_backward_input", plan_backward<op::Conv3dGradAttrs, true>);
  add("conv2d_backward_weight", plan_backward<op::Conv2dGradAttrs, false>);
  add("conv3d_backward_weight", plan_backward<op::Conv3dGradAttrs, false>);
}

}  // namespace starling::kernels
