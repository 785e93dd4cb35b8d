#include "starling/ops/api/unfold.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/conv_windows.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

// Windows over the image [n, c, h, w] as a convolution of every channel by itself: w is (kh, kw), y is one window.
template <class A>
ConvGeometry windows_over(const Shape& image, const A& a, const char* who) {
  ConvGeometry g =
      conv_geometry(Shape{image[0] * image[1], 1, image[2], image[3]}, Shape{1, 1, a.kernel[0], a.kernel[1]},
                    op::Conv2dAttrs{a.stride, a.padding, a.dilation, 1, {}}, who);
  return g;
}

std::unique_ptr<Plan> plan_unfold(const PlanRequest& request) {
  const ConvGeometry g = windows_over(request.in[0].shape, request.attrs.as<op::UnfoldAttrs>(), "unfold");
  const std::int64_t count = request.out[0].shape.numel();
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* x = static_cast<const T*>(launch.in[0]);
      auto* columns = static_cast<T*>(launch.out[0]);
      std::fill_n(columns, count, T(0));
      reference::each_product(g, [&](auto ix, auto iw, auto iy) {
        const std::int64_t plane = iy / g.positions(), window = iy % g.positions();
        columns[(plane * g.taps() + iw) * g.positions() + window] = x[ix];
      });
    });
  });
}

std::unique_ptr<Plan> plan_fold(const PlanRequest& request) {
  const ConvGeometry g = windows_over(request.out[0].shape, request.attrs.as<op::FoldAttrs>(), "fold");
  const reference::Sums all(request.out[0].shape);
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto* columns = static_cast<const T*>(launch.in[0]);
      double* sums = all.clear(launch.scratch);
      reference::each_product(g, [&](auto ix, auto iw, auto iy) {
        const std::int64_t plane = iy / g.positions(), window = iy % g.positions();
        sums[ix] += static_cast<double>(columns[(plane * g.taps() + iw) * g.positions() + window]);
      });
      for (std::int64_t i = 0; i < all.count; ++i) static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i]);
    });
  });
}

}  // namespace

void register_reference_unfold(KernelTable& table) {
  table.add("unfold", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_unfold));
  table.add("fold", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_fold));
}

}  // namespace starling::kernels
