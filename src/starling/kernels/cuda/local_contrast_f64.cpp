#include "starling/kernels/cuda/local_contrast_f64.h"

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/local_norm.h"

namespace starling::cuda {
namespace {

// The window's weights along one dimension, and their sum over the pixels of an image that exist around one.
constexpr const char* kWindow = R"(
static __device__ double weight_of(long long offset) {
  const double d = (double)offset / SIGMA;
  return exp(-d * d / 2);
}
static __device__ double sum_around(long long at, long long size) {
  double sum = 0;
  for (long long r = at - RADIUS; r <= at + RADIUS; ++r) {
    if (r >= 0 && r < size) sum += weight_of(r - at);
  }
  return sum;
}
)";

// Mean of VALUE over the channels and the window of pixel (row, column) of a sample.
constexpr const char* kMean = R"(
  const long long sample = i / (H * W), row = i / W % H, column = i % W;
  double sum = 0, all = 0;
  for (long long r = row < RADIUS ? 0 : row - RADIUS; r <= row + RADIUS && r < H; ++r) {
    const double down = weight_of(r - row);
    for (long long k = column < RADIUS ? 0 : column - RADIUS; k <= column + RADIUS && k < W; ++k) {
      const double by = down * weight_of(k - column);
      all += by;
      double channels = 0;
      for (long long c = 0; c < C; ++c) {
        const double value = VALUE;
        channels += POWER;
      }
      sum += by * channels;
    }
  }
  const double mean = sum / (all * (double)C);
  o0[i] = RESULT;
)";

// Every pixel gathers from the windows that cover it.
constexpr const char* kMeanBackward = R"(
  const long long sample = i / (C * H * W), row = i / W % H, column = i % W;
  double sum = 0;
  for (long long r = row < RADIUS ? 0 : row - RADIUS; r <= row + RADIUS && r < H; ++r) {
    const double down = weight_of(row - r) / sum_around(r, H);
    for (long long k = column < RADIUS ? 0 : column - RADIUS; k <= column + RADIUS && k < W; ++k) {
      const double by = down * weight_of(column - k) / sum_around(k, W);
      sum += by * (double)a0[(sample * H + r) * W + k];
    }
  }
  o0[i] = sum / (double)C;
)";

constexpr const char* kNormalise = R"(
  const long long sample = i / (C * H * W), pixel = i % (H * W);
  const double s = a2[sample * H * W + pixel], mean = a3[sample];
  o0[i] = ((double)a0[i] - a1[sample * H * W + pixel]) / (s > mean ? s : mean);
)";

cuda::CodeNames names_of(const Shape& x, std::int64_t size, double sigma) {
  cuda::CodeNames names;
  names.number("C", x[1]).number("H", x[2]).number("W", x[3]).number("RADIUS", size / 2).real("SIGMA", sigma);
  return names.code(kWindow);
}

cuda::CodeNames plain_mean(cuda::CodeNames names) {
  names.expression("VALUE", "(double)a0[((sample * C + c) * H + r) * W + k]").expression("POWER", "value");
  return names.expression("RESULT", "mean");
}

}  // namespace

std::unique_ptr<kernels::Plan> plan_mean_f64(const kernels::PlanRequest& r) {
  if (r.in[0].dtype != DType::f64) return nullptr;
  const auto& a = r.attrs.as<op::GaussianMeanAttrs>();
  const char* type = cuda::c_type(r.in[0].dtype);
  const auto names = plain_mean(names_of(r.in[0].shape, a.size, a.sigma));
  return cuda::plan_code({{r.out[0].shape.numel()}, {type}, {type}, kMean, names.text()});
}

std::unique_ptr<kernels::Plan> plan_mean_backward_f64(const kernels::PlanRequest& r) {
  if (r.in[0].dtype != DType::f64) return nullptr;
  const auto& a = r.attrs.as<op::GaussianMeanGradAttrs>();
  const char* type = cuda::c_type(r.in[0].dtype);
  const auto names = names_of(a.shape, a.size, a.sigma);
  return cuda::plan_code({{r.out[0].shape.numel()}, {type}, {type}, kMeanBackward, names.text()});
}

// Means of x in scratch, then the deviations s = √(G((x - mean)²) + epsilon), their mean over each image, and the
// result; all in f64.
std::unique_ptr<kernels::Plan> plan_contrast_f64(const kernels::PlanRequest& r) {
  const Shape& x = r.in[0].shape;
  if (r.in[0].dtype != DType::f64) return nullptr;
  if (x.numel() == 0) return kernels::make_plan([](const kernels::Launch&) {});
  const auto& a = r.attrs.as<op::LocalContrastNormAttrs>();
  const char* type = cuda::c_type(r.in[0].dtype);
  const std::int64_t pixels = x[2] * x[3];
  const Shape images{x[0], pixels};
  const auto names = names_of(x, a.size, a.sigma);
  cuda::CodeNames deviations = names;
  deviations.real("EPSILON", a.epsilon);
  deviations.expression("VALUE", "(double)a0[((sample * C + c) * H + r) * W + k] - a1[(sample * H + r) * W + k]");
  deviations.expression("POWER", "value * value").expression("RESULT", "sqrt(mean + EPSILON)");
  const auto bytes = (static_cast<std::size_t>(images.numel()) * sizeof(double) + 255) / 256 * 256;
  const Pointer in{Pointer::Of::in, 0}, means{Pointer::Of::scratch, 0}, s{Pointer::Of::scratch, bytes},
      average{Pointer::Of::scratch, 2 * bytes}, out{Pointer::Of::out, 0};
  const cuda::ChainFold mean{
      {images, {{DType::f64, contiguous_strides(images)}}, {{"a", {0}, DType::f64, {}}}, {1}}, {1}, cuda::Fold::mean};
  return cuda::plan_stages(
      {cuda::code_stage({{images.numel()}, {type}, {"double"}, kMean, plain_mean(names).text()}, {in, means}),
       cuda::code_stage({{images.numel()}, {type, "double"}, {"double"}, kMean, deviations.text()}, {in, means, s}),
       cuda::fold_stage(mean, {s, average}),
       cuda::code_stage({{x.numel()}, {type, "double", "double", "double"}, {type}, kNormalise, names.text()},
                        {in, means, s, average, out})},
      2 * bytes + static_cast<std::size_t>(x[0]) * sizeof(double));
}

}  // namespace starling::cuda
