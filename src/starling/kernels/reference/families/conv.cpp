#include "starling/ops/conv.h"

#include <cstring>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/product.h"

namespace starling {
namespace {

using reference::for_floats;

// Indices of a convolution, all tensors dense.
struct Windows {
  Shape x, w, y;
  Pair stride, padding, dilation;
  std::int64_t groups;

  // Calls f(index of x, of w, of y) for every product that a convolution adds up.
  template <class F>
  void each(F&& f) const {
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t o = 0; o < y[1]; ++o)
        for (std::int64_t i = 0; i < y[2]; ++i)
          for (std::int64_t j = 0; j < y[3]; ++j) each_tap(n, o, i, j, f);
  }

 private:
  template <class F>
  void each_tap(std::int64_t n, std::int64_t o, std::int64_t i, std::int64_t j, F&& f) const {
    const std::int64_t first = o / (w[0] / groups) * w[1];
    const std::int64_t at_y = ((n * y[1] + o) * y[2] + i) * y[3] + j;
    for (std::int64_t c = 0; c < w[1]; ++c) {
      for (std::int64_t p = 0; p < w[2]; ++p) {
        for (std::int64_t q = 0; q < w[3]; ++q) {
          const std::int64_t row = i * stride[0] - padding[0] + p * dilation[0];
          const std::int64_t col = j * stride[1] - padding[1] + q * dilation[1];
          if (row < 0 || row >= x[2] || col < 0 || col >= x[3]) continue;
          f(((n * x[1] + first + c) * x[2] + row) * x[3] + col, ((o * w[1] + c) * w[2] + p) * w[3] + q, at_y);
        }
      }
    }
  }
};

// Sums in double in scratch, whatever the order of the terms.
struct Sums {
  explicit Sums(const Shape& shape) : count(shape.numel()) {}
  std::int64_t count;
  std::size_t bytes() const { return static_cast<std::size_t>(count) * sizeof(double); }
  double* clear(void* scratch) const {
    auto* sums = static_cast<double*>(scratch);
    std::fill_n(sums, count, 0.0);
    return sums;
  }
};

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  const auto& a = request.attrs.as<Conv2dAttrs>();
  const Windows windows{
      request.in[0].shape, request.in[1].shape, request.out[0].shape, a.stride, a.padding, a.dilation, a.groups};
  const Sums all(windows.y);
  const auto activate = reference::activation(a.activation);
  const bool biased = request.in.size() == 3;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto *x = static_cast<const T*>(launch.in[0]), *w = static_cast<const T*>(launch.in[1]);
      double* sums = all.clear(launch.scratch);
      windows.each(
          [&](auto ix, auto iw, auto iy) { sums[iy] += static_cast<double>(x[ix]) * static_cast<double>(w[iw]); });
      const std::int64_t plane = windows.y[2] * windows.y[3];
      for (std::int64_t i = 0; i < all.count; ++i) {
        const double bias =
            biased ? static_cast<double>(static_cast<const T*>(launch.in[2])[i / plane % windows.y[1]]) : 0.0;
        static_cast<T*>(launch.out[0])[i] = static_cast<T>(activate(sums[i] + bias));
      }
    });
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request, bool of_input) {
  const auto& a = request.attrs.as<Conv2dGradAttrs>();
  const Shape& other = request.in[1].shape;
  const Windows windows{of_input ? a.shape : other,
                        of_input ? other : a.shape,
                        request.in[0].shape,
                        a.stride,
                        a.padding,
                        a.dilation,
                        a.groups};
  const Sums all(a.shape);
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(all.bytes(), [=](const Launch& launch) {
      const auto *dy = static_cast<const T*>(launch.in[0]), *by = static_cast<const T*>(launch.in[1]);
      double* sums = all.clear(launch.scratch);
      windows.each([&](auto ix, auto iw, auto iy) {
        sums[of_input ? ix : iw] += static_cast<double>(dy[iy]) * static_cast<double>(by[of_input ? iw : ix]);
      });
      for (std::int64_t i = 0; i < all.count; ++i) static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i]);
    });
  });
}

}  // namespace

void register_reference_conv(KernelTable& table) {
  table.add("conv2d", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_forward));
  table.add("conv2d_backward_input", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, [](const PlanRequest& r) { return plan_backward(r, true); }));
  table.add("conv2d_backward_weight", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, [](const PlanRequest& r) { return plan_backward(r, false); }));
}

}  // namespace starling
