#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/local_norm.h"
#include "starling/ops/def/attrs/local_norm.h"

namespace starling::kernels {
namespace {

// Windows of channels of x [n, c, inner]: functions for the number of an element's channel and of its neighbours.
struct Channels {
  std::int64_t c, inner = 1;
  explicit Channels(const Shape& x) : c(x[1]) {
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
  }
  // Code of a loop over the channels `from` to `to` around that of element `at`, with `other` the element there.
  std::string loop(std::int64_t before, std::int64_t after, const std::string& body) const {
    return fmt::format(
        "  {{ const long long c = at / {0}ll % {1}ll;\n"
        "    for (long long k = c < {2}ll ? 0 : c - {2}ll; k <= c + {3}ll && k < {1}ll; ++k) {{\n"
        "      const long long other = at + (k - c) * {0}ll; {4} }} }}\n",
        inner, c, before, after, body);
  }
};

std::unique_ptr<Plan> plan_sum(const PlanRequest& r) {
  if (r.in[0].dtype != DType::f32) return nullptr;
  const auto& a = r.attrs.as<op::ChannelWindowAttrs>();
  const std::string body = "  const long long at = i; float total = 0;\n" +
                           Channels(r.in[0].shape).loop(a.before, a.after, "total += a0[other];") + "  o0[i] = total;";
  return cuda::plan_code({r.in[0].shape, {"float"}, {"float"}, body, {}});
}

// k + alpha / size · Σ x² around an element.
std::string base_function(const op::LocalResponseNormAttrs& a, const Channels& channels) {
  return "static __device__ float base(const float* x, long long at) {\n  float total = 0;\n" +
         channels.loop(a.size / 2, (a.size - 1) / 2, "total += x[other] * x[other];") +
         fmt::format("  return (float){} + (float){} * total;\n}}\n", cuda::literal(a.k),
                     cuda::literal(a.alpha / static_cast<double>(a.size)));
}

std::unique_ptr<Plan> plan_response(const PlanRequest& r) {
  if (r.in[0].dtype != DType::f32) return nullptr;
  const auto& a = r.attrs.as<op::LocalResponseNormAttrs>();
  const std::string body = fmt::format("  o0[i] = a0[i] * powf(base(a0, i), (float){});", cuda::literal(-a.beta));
  return cuda::plan_code({r.in[0].shape, {"float"}, {"float"}, body, base_function(a, Channels(r.in[0].shape))});
}

std::unique_ptr<Plan> plan_response_backward(const PlanRequest& r) {
  if (!cuda::c_type(r.in[0].dtype) || r.in[0].dtype != DType::f32) return nullptr;
  const auto& a = r.attrs.as<op::LocalResponseNormAttrs>();
  const Channels channels(r.in[0].shape);
  const std::string through = channels.loop(
      (a.size - 1) / 2, a.size / 2,
      fmt::format("total += a0[other] * a1[other] * powf(base(a1, other), (float){});", cuda::literal(-a.beta - 1)));
  const std::string body =
      "  const long long at = i; float total = 0;\n" + through +
      fmt::format("  o0[i] = a0[i] * powf(base(a1, i), (float){}) - (float){} * a1[i] * total;", cuda::literal(-a.beta),
                  cuda::literal(2 * a.alpha / static_cast<double>(a.size) * a.beta));
  return cuda::plan_code({r.in[0].shape, {"float", "float"}, {"float"}, body, base_function(a, channels)});
}

}  // namespace

void register_cuda_local_response_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan});
  };
  add("local_response_norm", plan_response);
  add("local_response_norm_backward", plan_response_backward);
  add("channel_window_sum", plan_sum);
}

}  // namespace starling::kernels
