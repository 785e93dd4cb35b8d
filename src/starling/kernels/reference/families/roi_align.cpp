#include <algorithm>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/vision.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

struct Regions {
  Shape x, y;
  double scale;
  std::int64_t ratio;
  bool aligned;

  // Calls f(element of y, element of x, weight) for every pair with a weight.
  template <class F>
  void each(const Launch& l, F&& f) const {
    const auto* boxes = static_cast<const float*>(l.in[1]);
    const auto* sample = static_cast<const std::int64_t*>(l.in[2]);
    for (std::int64_t k = 0; k < y[0]; ++k) {
      check(sample[k] >= 0 && sample[k] < x[0], "[roi_align] expected samples in [0, {}), got {} at {}", x[0],
            sample[k], k);
      const op::RoiBox box = op::roi_box(boxes + 4 * k, {y[2], y[3]}, scale, ratio, aligned, k);
      for (std::int64_t c = 0; c < x[1]; ++c)
        for (std::int64_t i = 0; i < y[2]; ++i)
          for (std::int64_t j = 0; j < y[3]; ++j)
            each_point(box, i, j, [&](const op::RoiPoint& point) {
              for (int corner = 0; corner < 4; ++corner)
                f(((k * x[1] + c) * y[2] + i) * y[3] + j, (sample[k] * x[1] + c) * x[2] * x[3] + point.place[corner],
                  point.weight[corner] / box.points());
            });
    }
  }

 private:
  template <class F>
  void each_point(const op::RoiBox& box, std::int64_t i, std::int64_t j, F&& f) const {
    for (std::int64_t p = 0; p < box.points_h; ++p)
      for (std::int64_t q = 0; q < box.points_w; ++q) {
        const double row = static_cast<double>(i) + (static_cast<double>(p) + 0.5) / static_cast<double>(box.points_h);
        const double col = static_cast<double>(j) + (static_cast<double>(q) + 0.5) / static_cast<double>(box.points_w);
        f(op::roi_point(box.top + row * box.bin_h, box.left + col * box.bin_w, x[2], x[3]));
      }
  }
};

std::unique_ptr<Plan> plan_align(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::RoiAlignAttrs>();
  const Regions regions{r.in[0].shape, r.out[0].shape, a.spatial_scale, a.sampling_ratio, a.aligned};
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan(static_cast<std::size_t>(regions.y.numel()) * sizeof(double), [regions](const Launch& l) {
      auto* sums = static_cast<double*>(l.scratch);
      std::fill_n(sums, regions.y.numel(), 0.0);
      regions.each(l, [&](auto to, auto from, double weight) {
        sums[to] += weight * static_cast<double>(static_cast<const T*>(l.in[0])[from]);
      });
      for (std::int64_t i = 0; i < regions.y.numel(); ++i) static_cast<T*>(l.out[0])[i] = static_cast<T>(sums[i]);
    });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::RoiAlignGradAttrs>();
  const Regions regions{r.out[0].shape, r.in[0].shape, a.spatial_scale, a.sampling_ratio, a.aligned};
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan(static_cast<std::size_t>(regions.x.numel()) * sizeof(double), [regions](const Launch& l) {
      auto* sums = static_cast<double*>(l.scratch);
      std::fill_n(sums, regions.x.numel(), 0.0);
      regions.each(l, [&](auto from, auto to, double weight) {
        sums[to] += weight * static_cast<double>(static_cast<const T*>(l.in[0])[from]);
      });
      for (std::int64_t i = 0; i < regions.x.numel(); ++i) static_cast<T*>(l.out[0])[i] = static_cast<T>(sums[i]);
    });
  });
}

}  // namespace

void register_reference_roi_align(KernelTable& table) {
  table.add("roi_align", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_align));
  table.add("roi_align_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_backward));
}

}  // namespace starling::kernels
