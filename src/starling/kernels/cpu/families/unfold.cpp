#include "starling/ops/api/unfold.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv/conv_columns.h"
#include "starling/kernels/cpu/conv/conv_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// Geometry with every channel of every image as its own plane.
template <class A>
ConvGeometry windows_over(const Shape& image, const A& a, const char* who) {
  return conv_geometry(Shape{image[0] * image[1], 1, image[2], image[3]}, Shape{1, 1, a.kernel[0], a.kernel[1]},
                       op::Conv2dAttrs{a.stride, a.padding, a.dilation, 1, {}}, who);
}

std::int64_t grain(const ConvGeometry& g) {
  return std::max<std::int64_t>(1, 32 * 1024 / std::max<std::int64_t>(1, g.taps() * g.positions()));
}

template <class T>
std::unique_ptr<Plan> make_unfold(const ConvGeometry& g) {
  return make_plan([g](const Launch& l) {
    const std::int64_t plane = g.x[3] * g.x[4], columns = g.taps() * g.positions();
    parallel_for(g.x[0], grain(g), [&](std::int64_t begin, std::int64_t end) {
      volume_to_columns(g, end - begin, input<T>(l, 0) + begin * plane, {0, g.positions()},
                        output<T>(l) + begin * columns, g.positions());
    });
  });
}

template <class T>
std::unique_ptr<Plan> make_fold(const ConvGeometry& g) {
  return make_plan([g](const Launch& l) {
    const std::int64_t plane = g.x[3] * g.x[4], columns = g.taps() * g.positions();
    parallel_for(g.x[0], grain(g), [&](std::int64_t begin, std::int64_t end) {
      T* image = output<T>(l) + begin * plane;
      std::fill_n(image, (end - begin) * plane, T(0));
      add_columns_to_volume(g, end - begin, input<T>(l, 0) + begin * columns, g.positions(), {0, g.positions()}, image);
    });
  });
}

std::unique_ptr<Plan> plan_unfold(const PlanRequest& request) {
  const ConvGeometry g = windows_over(request.in[0].shape, request.attrs.as<op::UnfoldAttrs>(), "unfold");
  if (request.in[0].dtype == DType::f32) return make_unfold<float>(g);
  return request.in[0].dtype == DType::f64 ? make_unfold<double>(g) : nullptr;
}

std::unique_ptr<Plan> plan_fold(const PlanRequest& request) {
  const ConvGeometry g = windows_over(request.out[0].shape, request.attrs.as<op::FoldAttrs>(), "fold");
  if (request.in[0].dtype == DType::f32) return make_fold<float>(g);
  return request.in[0].dtype == DType::f64 ? make_fold<double>(g) : nullptr;
}

}  // namespace

void register_cpu_unfold(KernelTable& table) {
  table.add("unfold", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_unfold});
  table.add("fold", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_fold});
}

}  // namespace starling::kernels
