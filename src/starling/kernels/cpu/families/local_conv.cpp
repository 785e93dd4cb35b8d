#include "starling/ops/api/local_conv.h"

#include <algorithm>

#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/conv/conv_plans.h"
#include "starling/kernels/cpu/gemm/gemm.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// Locally connected convolution: at each position a product of its windows [n, taps] with its weights [out, taps]. Each
// weight is read once, since weights dominate the memory traffic. Threads share out positions.
template <class T>
class LocalConv {
 public:
  LocalConv(const ConvGeometry& geometry, bool biased, int threads) : g_(geometry), biased_(biased) {
    const std::int64_t n = g_.x[0], out = g_.w[0], taps = g_.taps(), positions = g_.positions();
    plan_ = plan_gemm({.m = n, .n = out, .k = taps, .trans_b = true}, 1, sizeof(T));
    const std::int64_t useful = positions * out * taps / (32 * 1024);
    threads_ = static_cast<int>(std::clamp<std::int64_t>(std::min(positions, useful), 1, threads));
    windows_ = whole_lanes(n * taps);
    products_ = whole_lanes(n * out);
    product_bytes_ = static_cast<std::int64_t>((plan_.scratch_per_thread + 63) / 64 * 64);
    ScratchCarver carver;
    carve(carver);
    scratch_bytes_ = carver.used();
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }

  void run(const T* x, const T* w, const T* bias, T* y, void* scratch) const {
    ScratchCarver carver(scratch);
    const Memory memory = carve(carver);
    const std::int64_t out = g_.w[0], positions = g_.positions();
    share_tasks(positions, threads_, [&](int thread, std::int64_t p) {
      T* windows = memory.windows + thread * windows_;
      T* products = memory.products + thread * products_;
      for (std::int64_t n = 0; n < g_.x[0]; ++n)
        copy_window(x + n * g_.x[1] * g_.x[3] * g_.x[4], p, windows + n * g_.taps());
      multiply(windows, w + p * out * g_.taps(), products, memory.product + thread * product_bytes_);
      for (std::int64_t n = 0; n < g_.x[0]; ++n) {
        for (std::int64_t o = 0; o < out; ++o) {
          const T add = biased_ ? bias[o * positions + p] : T(0);
          y[(n * out + o) * positions + p] = products[n * out + o] + add;
        }
      }
    });
  }

 private:
  struct Memory {
    char* product;
    T *windows, *products;
  };
  Memory carve(ScratchCarver& carver) const {
    return {carver.take<char>(product_bytes_ * threads_), carver.take<T>(windows_ * threads_),
            carver.take<T>(products_ * threads_)};
  }
  void copy_window(const T* image, std::int64_t position, T* to) const {
    const std::int64_t top = position / g_.y[4] * g_.stride[1] - g_.padding[1];
    const std::int64_t left = position % g_.y[4] * g_.stride[2] - g_.padding[2];
    const std::int64_t step_h = g_.dilation[1], step_w = g_.dilation[2];
    const bool inside =
        top >= 0 && left >= 0 && top + (g_.w[3] - 1) * step_h < g_.x[3] && left + (g_.w[4] - 1) * step_w < g_.x[4];
    for (std::int64_t c = 0; c < g_.x[1]; ++c, image += g_.x[3] * g_.x[4]) {
      for (std::int64_t kh = 0; kh < g_.w[3]; ++kh) {
        const std::int64_t h = top + kh * step_h;
        if (inside) {
          const T* row = image + h * g_.x[4] + left;
          for (std::int64_t kw = 0; kw < g_.w[4]; ++kw) *to++ = row[kw * step_w];
          continue;
        }
        for (std::int64_t kw = 0; kw < g_.w[4]; ++kw) {
          const std::int64_t w = left + kw * step_w;
          *to++ = h >= 0 && h < g_.x[3] && w >= 0 && w < g_.x[4] ? image[h * g_.x[4] + w] : T(0);
        }
      }
    }
  }
  void multiply(const float* a, const float* b, float* c, void* scratch) const { gemm(plan_, a, b, c, {}, scratch); }
  void multiply(const double* a, const double* b, double* c, void* scratch) const {
    gemm(plan_, a, b, c, false, scratch);
  }

  ConvGeometry g_;
  bool biased_;
  GemmPlan plan_;
  int threads_ = 1;
  std::int64_t windows_ = 0, products_ = 0, product_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

template <class T>
std::unique_ptr<Plan> make_local(const ConvGeometry& g, bool biased, int threads) {
  const LocalConv<T> conv(g, biased, threads);
  return make_plan(conv.scratch_bytes(), [=](const Launch& l) {
    conv.run(input<T>(l, 0), input<T>(l, 1), biased ? input<T>(l, 2) : nullptr, output<T>(l), l.scratch);
  });
}

std::unique_ptr<Plan> plan_local(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::LocalConv2dAttrs>();
  const Shape &x = request.in[0].shape, &w = request.in[1].shape;
  const ConvGeometry g = conv_geometry(x, Shape{w[1], x[1], a.kernel[0], a.kernel[1]},
                                       op::Conv2dAttrs{a.stride, a.padding, a.dilation, 1, {}}, "local_conv2d");
  if (g.y.numel() == 0) return conv_plans::plan_zeros(request);
  if (!conv_plans::has_work(g)) return nullptr;
  const bool biased = request.in.size() == 3;
  if (request.in[0].dtype == DType::f32) return make_local<float>(g, biased, request.threads);
  return request.in[0].dtype == DType::f64 ? make_local<double>(g, biased, request.threads) : nullptr;
}

}  // namespace

void register_cpu_local_conv(KernelTable& table) {
  table.add("local_conv2d", DeviceKind::cpu, {"gemm", Accepts::contiguous, plan_local});
}

}  // namespace starling::kernels
