#include "starling/kernels/cuda/norm_plans.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/def/attrs/normalize.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;

std::unique_ptr<Plan> plan_infer(const PlanRequest& request) {
  if (!cuda::all_f32(request.in)) return nullptr;
  const double eps = request.attrs.as<op::EpsAttrs>().eps;
  cuda::ElementCode code{request.out[0].shape, {}, {"float"}, {}, {}};
  for (std::size_t i = 0; i < request.in.size(); ++i) code.in.emplace_back("float");
  code.body = fmt::format("  float y = (a0[i] - a1[x1]) / sqrtf(a2[x1] + (float){});\n", cuda::literal(eps));
  if (request.in.size() > 3) code.body += "  y *= a3[x1];\n";
  if (request.in.size() > 4) code.body += "  y += a4[x1];\n";
  code.body += "  o0[i] = y;";
  return cuda::plan_code(code);
}

// Statistics are given: the gradient of x is dy times a factor, and the sums are results of their own.
std::unique_ptr<Plan> plan_infer_backward(const PlanRequest& request) {
  device::Norm norm;
  if (!cuda::all_f32(request.in)) return nullptr;
  const NormView v = norm_view(request.op, {request.in[1].dtype, request.in[1].shape}, request.attrs);
  if (!cuda::device_norm(v, norm)) return nullptr;
  norm.fixed = true;
  const std::size_t channels = bytes_of(request.out[1]);
  if (v.x.numel() == 0) {
    return make_plan([channels](const Launch& launch) {
      for (std::size_t i : {1, 2})
        check_cuda(cudaMemsetAsync(launch.out[i], 0, channels, cuda::stream_of(launch)), "clearing a gradient");
    });
  }
  check_cuda(device::load_norm(), "loading a kernel");
  return make_plan(
      static_cast<std::size_t>(norm.stats * norm.pieces) * 2 * sizeof(float),
      [norm, weighted = request.in.size() > 4](const Launch& launch) {
        const device::NormBackward b{input<float>(launch, 0),  nullptr,
                                     input<float>(launch, 1),  input<float>(launch, 2),
                                     input<float>(launch, 3),  weighted ? input<float>(launch, 4) : nullptr,
                                     output<float>(launch, 0), output<float>(launch, 2),
                                     output<float>(launch, 1)};
        check_cuda(device::launch_norm_backward(norm, b, static_cast<float*>(launch.scratch), cuda::stream_of(launch)),
                   "launching a kernel");
      });
}

// Σ (x - mean)² of every channel.
std::unique_ptr<Plan> plan_squares(const PlanRequest& request) {
  if (!cuda::all_f32(request.in)) return nullptr;
  const ArgDesc& x = request.in[0];
  cuda::ChainFold fold;
  fold.chain.shape = x.shape;
  Shape by_channel = Shape::filled(x.shape.rank(), 0);
  by_channel[1] = request.in[1].strides[0];
  fold.chain.operands = {{DType::f32, x.strides}, {DType::f32, by_channel}};
  fold.chain.steps = {{"(a - b) * (a - b)", {0, 1}, DType::f32, {}}};
  fold.chain.outputs = {2};
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (d != 1) fold.axes.push_back(d);
  }
  return cuda::plan_stages({cuda::fold_stage(fold, cuda::plain_pointers(2, 1))});
}

}  // namespace

void register_cuda_batch_norm(KernelTable& table) {
  cuda::add_norm(table, "batch_norm_train", cuda::NormStorage::mixed);
  table.add("batch_norm_infer", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_infer});
  table.add("batch_norm_infer_backward", DeviceKind::cuda, {"norm", Accepts::contiguous, plan_infer_backward});
  table.add("channel_squares", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_squares});
}

}  // namespace starling::kernels
