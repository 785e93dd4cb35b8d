#include "starling/kernels/cuda/local_contrast_f64.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/local_norm.h"
#include "starling/ops/def/attrs/local_norm.h"

namespace starling::kernels {
namespace {

using cuda::Pointer;

// Gaussian windows over images [n, c, h, w]: values of pixels [n, h, w] lie between the stages of a kernel.
struct Windows {
  Shape x, pixels;
  std::int64_t size;
  double sigma;
  Windows(const Shape& images, std::int64_t window, double deviation)
      : x(images), pixels({images[0], images[2], images[3]}), size(window), sigma(deviation) {}

  // Code of bell(d), a weight before it is divided by the sum of its window, and share(i, n), that sum along an axis of
  // n pixels.
  std::string functions() const {
    return fmt::format(
        "static __device__ float bell(long long d) {{ return expf(-(float)(d * d) * (float){0}); }}\n"
        "static __device__ float share(long long i, long long n) {{\n  float sum = 0;\n"
        "  for (long long k = i < {1} ? 0 : i - {1}; k <= i + {1} && k < n; ++k) sum += bell(k - i);\n"
        "  return sum;\n}}\n",
        cuda::literal(0.5 / (sigma * sigma)), size / 2);
  }
  // Loop over the window of pixel (x0, x1, x2) that adds up `total` of a0; `term` has `by`, a weight's two factors.
  std::string window(const std::string& result) const {
    return fmt::format(
        "  float total = 0;\n  const long long i0 = x1, j0 = x2;\n"
        "  for (long long r = i0 < {0} ? 0 : i0 - {0}; r <= i0 + {0} && r < {1}; ++r) {{\n"
        "    float row = 0;\n"
        "    for (long long k = j0 < {0} ? 0 : j0 - {0}; k <= j0 + {0} && k < {2}; ++k)\n"
        "      row += bell(k - j0) * a0[((long long)x0 * {1} + r) * {2} + k];\n"
        "    total += bell(r - i0) * row;\n  }}\n  {3}\n",
        size / 2, x[2], x[3], result);
  }
  std::string whole() const { return fmt::format("(share(x1, {}) * share(x2, {}))", x[2], x[3]); }

  // Sum over the channels of a pixel of `term`, in which `v` is an element.
  cuda::ElementCode channels(const std::string& term, std::vector<std::string> in) const {
    const std::string body = fmt::format(
        "  float total = 0;\n  const long long first = (long long)x0 * {0} * {1} + (long long)x1 * {2} + x2;\n"
        "  for (long long c = 0; c < {0}; ++c) {{ const float v = a0[first + c * {1}]; total += {3}; }}\n"
        "  o0[i] = total * (float){4};\n",
        x[1], x[2] * x[3], x[3], term, cuda::literal(1 / static_cast<double>(x[1])));
    return {pixels, std::move(in), {"float"}, body, {}};
  }
  cuda::ElementCode over_window(const std::string& result) const {
    return {pixels, {"float"}, {"float"}, window(result), functions()};
  }
};

// Values of pixels in scratch, each at an address of its own.
class Between {
 public:
  explicit Between(const Shape& pixels) : bytes_((static_cast<std::size_t>(pixels.numel()) * 4 + 255) / 256 * 256) {}
  Pointer operator()(std::size_t number) {
    most_ = std::max(most_, number + 1);
    return {Pointer::Of::scratch, number * bytes_};
  }
  std::size_t bytes() const { return most_ * bytes_; }

 private:
  std::size_t bytes_, most_ = 0;
};

constexpr Pointer kIn{Pointer::Of::in, 0}, kOut{Pointer::Of::out, 0};

std::unique_ptr<Plan> plan_mean(const PlanRequest& r) {
  if (r.in[0].dtype != DType::f32) return nullptr;
  const auto& a = r.attrs.as<op::GaussianMeanAttrs>();
  const Windows w(r.in[0].shape, a.size, a.sigma);
  Between between(w.pixels);
  const Pointer means = between(0);
  return cuda::plan_stages({cuda::code_stage(w.channels("v", {"float"}), {kIn, means}),
                            cuda::code_stage(w.over_window("o0[i] = total / " + w.whole() + ";"), {means, kOut})},
                           between.bytes());
}

std::unique_ptr<Plan> plan_mean_backward(const PlanRequest& r) {
  if (r.in[0].dtype != DType::f32) return nullptr;
  const auto& a = r.attrs.as<op::GaussianMeanGradAttrs>();
  const Windows w(a.shape, a.size, a.sigma);
  Between between(w.pixels);
  const Pointer shares = between(0), spread = between(1);
  const std::string divided =
      fmt::format("  o0[i] = a0[i] * (float){} / {};\n", cuda::literal(1 / static_cast<double>(w.x[1])), w.whole());
  const std::string to_channels = fmt::format("  o0[i] = a0[((long long)x0 * {} + x2) * {} + x3];\n", w.x[2], w.x[3]);
  return cuda::plan_stages({cuda::code_stage({w.pixels, {"float"}, {"float"}, divided, w.functions()}, {kIn, shares}),
                            cuda::code_stage(w.over_window("o0[i] = total;"), {shares, spread}),
                            cuda::code_stage({w.x, {"float"}, {"float"}, to_channels, {}}, {spread, kOut})},
                           between.bytes());
}

std::unique_ptr<Plan> plan_contrast(const PlanRequest& r) {
  if (r.in[0].dtype != DType::f32) return nullptr;
  if (r.in[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  const auto& a = r.attrs.as<op::LocalContrastNormAttrs>();
  const Windows w(r.in[0].shape, a.size, a.sigma);
  Between between(w.pixels);
  const Pointer sums = between(0), means = between(1), squares = between(2), deviations = between(3),
                of_image = between(4);
  std::size_t scratch = between.bytes();
  std::vector<cuda::Stage> stages = {
      cuda::code_stage(w.channels("v", {"float"}), {kIn, sums}),
      cuda::code_stage(w.over_window("o0[i] = total / " + w.whole() + ";"), {sums, means}),
      cuda::code_stage(w.channels("(v - a1[i]) * (v - a1[i])", {"float", "float"}), {kIn, means, squares}),
      cuda::code_stage(
          w.over_window(fmt::format("o0[i] = sqrtf(total / {} + (float){});", w.whole(), cuda::literal(a.epsilon))),
          {squares, deviations})};
  const Shape images{w.x[0], w.x[2] * w.x[3]};
  cuda::add_fold(stages, scratch,
                 {{.shape = images,
                   .operands = {{DType::f32, contiguous_strides(images)}},
                   .steps = {{"a", {0}, DType::f32, {}}},
                   .outputs = {1}},
                  {1},
                  cuda::Fold::mean},
                 {deviations, of_image});
  const std::string body = fmt::format(
      "  const long long pixel = ((long long)x0 * {0} + x2) * {1} + x3;\n"
      "  o0[i] = (a0[i] - a1[pixel]) / fmaxf(a2[pixel], a3[x0]);\n",
      w.x[2], w.x[3]);
  stages.push_back(cuda::code_stage({w.x, {"float", "float", "float", "float"}, {"float"}, body, {}},
                                    {kIn, means, deviations, of_image, kOut}));
  return cuda::plan_stages(std::move(stages), scratch);
}

}  // namespace

void register_cuda_local_contrast_norm(KernelTable& table) {
  const auto add = [&](const char* op, const char* name, auto plan) {
    table.add(op, DeviceKind::cuda, {name, Accepts::contiguous, plan});
  };
  add("gaussian_mean", "nvrtc", plan_mean);
  add("gaussian_mean", "f64", cuda::plan_mean_f64);
  add("gaussian_mean_backward", "nvrtc", plan_mean_backward);
  add("gaussian_mean_backward", "f64", cuda::plan_mean_backward_f64);
  add("local_contrast_norm", "nvrtc", plan_contrast);
  add("local_contrast_norm", "f64", cuda::plan_contrast_f64);
}

}  // namespace starling::kernels
