#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/kernels/by_float.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/vision.h"

namespace starling::kernels {
namespace {

struct Regions {
  std::int64_t samples, channels, h, w, boxes;
  Pair size;
  double scale;
  std::int64_t ratio;
  bool aligned;

  std::int64_t bins() const { return size[0] * size[1]; }

  op::RoiBox box(const Launch& l, std::int64_t k) const {
    return op::roi_box(static_cast<const float*>(l.in[1]) + 4 * k, size, scale, ratio, aligned, k);
  }
  std::int64_t sample(const Launch& l, std::int64_t k) const {
    const std::int64_t at = static_cast<const std::int64_t*>(l.in[2])[k];
    if (at < 0 || at >= samples) fail("[roi_align] expected samples in [0, {}), got {} at {}", samples, at, k);
    return at;
  }

  // Calls f(bin, point) for every sampling point of a box: its pixels and weights serve all channels.
  template <class F>
  void each_point(const op::RoiBox& b, const F& f) const {
    for (std::int64_t bin = 0; bin < bins(); ++bin) {
      const std::int64_t down = bin / size[1], across = bin % size[1];
      const auto i = static_cast<double>(down), j = static_cast<double>(across);
      for (std::int64_t p = 0; p < b.points_h; ++p) {
        const double row = i + (static_cast<double>(p) + 0.5) / static_cast<double>(b.points_h);
        for (std::int64_t q = 0; q < b.points_w; ++q) {
          const double column = j + (static_cast<double>(q) + 0.5) / static_cast<double>(b.points_w);
          f(bin, op::roi_point(b.top + row * b.bin_h, b.left + column * b.bin_w, h, w));
        }
      }
    }
  }
};

template <class T>
void align_box(const Regions& r, const Launch& l, std::int64_t k) {
  const std::int64_t sample = r.sample(l, k);
  const op::RoiBox box = r.box(l, k);
  if (r.channels == 0) return;  // other sizes may then be so large that a loop over the bins never ends
  const auto* x = static_cast<const T*>(l.in[0]) + sample * r.channels * r.h * r.w;
  auto* y = static_cast<T*>(l.out[0]) + k * r.channels * r.bins();
  std::fill_n(y, r.channels * r.bins(), T{0});
  r.each_point(box, [&](std::int64_t bin, const op::RoiPoint& point) {
    T weight[4];
    for (int c = 0; c < 4; ++c) weight[c] = static_cast<T>(point.weight[c] / box.points());
    for (std::int64_t c = 0; c < r.channels; ++c) {
      const T* plane = x + c * r.h * r.w;
      y[c * r.bins() + bin] += weight[0] * plane[point.place[0]] + weight[1] * plane[point.place[1]] +
                               weight[2] * plane[point.place[2]] + weight[3] * plane[point.place[3]];
    }
  });
}

// Gradient for x. Boxes overlap, so threads share out channels.
template <class T>
void give_back(const Regions& r, const Launch& l, std::int64_t first, std::int64_t end) {
  const std::int64_t image = r.h * r.w;
  auto* dx = static_cast<T*>(l.out[0]);
  for (std::int64_t s = 0; s < r.samples; ++s)
    std::fill_n(dx + (s * r.channels + first) * image, (end - first) * image, T{0});
  for (std::int64_t k = 0; k < r.boxes; ++k) {
    const std::int64_t sample = r.sample(l, k);
    const auto* dy = static_cast<const T*>(l.in[0]) + k * r.channels * r.bins();
    const op::RoiBox box = r.box(l, k);
    r.each_point(box, [&](std::int64_t bin, const op::RoiPoint& point) {
      for (std::int64_t c = first; c < end; ++c) {
        const T share = dy[c * r.bins() + bin] / static_cast<T>(box.points());
        T* plane = dx + (sample * r.channels + c) * image;
        for (int corner = 0; corner < 4; ++corner)
          plane[point.place[corner]] += static_cast<T>(point.weight[corner]) * share;
      }
    });
  }
}

template <class Attributes>
Regions regions_of(const Shape& x, const Shape& y, const Attributes& a) {
  return {x[0], x[1], x[2], x[3], y[0], {y[2], y[3]}, a.spatial_scale, a.sampling_ratio, a.aligned};
}

std::unique_ptr<Plan> plan_align(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    const Regions r = regions_of(request.in[0].shape, request.out[0].shape, request.attrs.as<op::RoiAlignAttrs>());
    return make_plan([r](const Launch& l) {
      const std::int64_t work = std::max<std::int64_t>(r.channels * r.bins(), 1);
      parallel_for(r.boxes, 4096 / work, [&](std::int64_t first, std::int64_t end) {
        for (std::int64_t k = first; k < end; ++k) align_box<T>(r, l, k);
      });
    });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    const Regions r = regions_of(request.out[0].shape, request.in[0].shape, request.attrs.as<op::RoiAlignGradAttrs>());
    return make_plan([r](const Launch& l) {
      for (std::int64_t k = 0; k < r.boxes; ++k) r.box(l, k), r.sample(l, k);  // checks before anything is written
      const std::int64_t work = std::max<std::int64_t>(r.boxes * r.bins() + r.samples * r.h * r.w, 1);
      parallel_for(r.channels, 16384 / work,
                   [&](std::int64_t first, std::int64_t end) { give_back<T>(r, l, first, end); });
    });
  });
}

}  // namespace

void register_cpu_roi_align(KernelTable& table) {
  table.add("roi_align", DeviceKind::cpu, {"points", Accepts::contiguous, plan_align});
  table.add("roi_align_backward", DeviceKind::cpu, {"points", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
