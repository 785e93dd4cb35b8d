#include "starling/ops/api/interpolate.h"

#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/pool/pool_windows.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

struct Resize {
  std::int64_t planes = 0, in_h = 0, in_w = 0;
  std::vector<op::PixelMix> rows, columns;  // one per pixel of the result
  bool nearest = true;

  std::int64_t in() const { return in_h * in_w; }
  std::int64_t out_w() const { return static_cast<std::int64_t>(columns.size()); }
  std::int64_t out() const { return static_cast<std::int64_t>(rows.size()) * out_w(); }
};

template <class Attributes>
Resize resize_of(const Shape& x, const Shape& y, const Attributes& a) {
  Resize s;
  if (x.numel() == 0) return s;
  s.planes = x[0] * x[1], s.in_h = x[2], s.in_w = x[3];
  s.rows = op::pixel_mixes(x[2], y[2], a.scale_h, a.mode, a.align_corners);
  s.columns = op::pixel_mixes(x[3], y[3], a.scale_w, a.mode, a.align_corners);
  s.nearest = a.mode.str() == "nearest";
  return s;
}

// Interpolates rows of x first, vectorised, then the columns of that row.
template <class T>
void resize_plane(const Resize& s, const T* x, T* y, T* row) {
  const op::PixelMix* before = nullptr;
  for (const op::PixelMix& r : s.rows) {
    const T *low = x + r.low * s.in_w, *high = x + r.high * s.in_w;
    if (s.nearest) {
      if (before && before->low == r.low) {
        std::copy_n(y - s.out_w(), s.out_w(), y);
        y += s.out_w();
      } else {
        for (const op::PixelMix& c : s.columns) *y++ = low[c.low];
      }
    } else {
      const T weight = static_cast<T>(r.weight);
      for (std::int64_t i = 0; i < s.in_w; ++i) row[i] = low[i] + weight * (high[i] - low[i]);
      for (const op::PixelMix& c : s.columns) *y++ = row[c.low] + static_cast<T>(c.weight) * (row[c.high] - row[c.low]);
    }
    before = &r;
  }
}

template <class T>
void give_back_plane(const Resize& s, const T* dy, T* dx, T* row) {
  std::fill_n(dx, s.in(), T{0});
  for (const op::PixelMix& r : s.rows) {
    std::fill_n(row, s.in_w, T{0});
    for (const op::PixelMix& c : s.columns) {
      const T gradient = *dy++, part = static_cast<T>(c.weight) * gradient;
      row[c.low] += gradient - part;
      row[c.high] += part;
    }
    const T weight = static_cast<T>(r.weight);
    T *low = dx + r.low * s.in_w, *high = dx + r.high * s.in_w;
    for (std::int64_t i = 0; i < s.in_w; ++i) low[i] += (1 - weight) * row[i];
    if (weight == 0) continue;
    for (std::int64_t i = 0; i < s.in_w; ++i) high[i] += weight * row[i];
  }
}

template <class T, class Run>
std::unique_ptr<Plan> plan_planes(Resize resize, int threads, Run run) {
  const auto rows = static_cast<std::size_t>(std::max(threads, 1) * resize.in_w) * sizeof(T);
  return make_plan(rows, [s = std::move(resize), threads, run](const Launch& l) {
    share_planes(s.planes, s.in() + s.out(), threads, [&](std::int64_t first, std::int64_t end, int piece) {
      for (std::int64_t p = first; p < end; ++p)
        run(s, static_cast<const T*>(l.in[0]), static_cast<T*>(l.out[0]), p,
            static_cast<T*>(l.scratch) + piece * s.in_w);
    });
  });
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& r) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return plan_planes<T>(resize_of(r.in[0].shape, r.out[0].shape, r.attrs.as<op::InterpolateAttrs>()), r.threads,
                          [](const Resize& s, const T* x, T* y, std::int64_t p, T* row) {
                            resize_plane(s, x + p * s.in(), y + p * s.out(), row);
                          });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& r) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return plan_planes<T>(resize_of(r.out[0].shape, r.in[0].shape, r.attrs.as<op::InterpolateGradAttrs>()), r.threads,
                          [](const Resize& s, const T* dy, T* dx, std::int64_t p, T* row) {
                            give_back_plane(s, dy + p * s.out(), dx + p * s.in(), row);
                          });
  });
}

}  // namespace

void register_cpu_interpolate(KernelTable& table) {
  table.add("interpolate", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_forward});
  table.add("interpolate_backward", DeviceKind::cpu, {"rows", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
