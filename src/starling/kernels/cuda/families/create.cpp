#include "starling/ops/api/create.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/attrs/create.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_values(const PlanRequest& request, const std::string& value) {
  const char* type = cuda::c_type(request.out[0].dtype);
  if (!type) return nullptr;
  return cuda::plan_code({request.out[0].shape, {}, {type}, fmt::format("  o0[i] = ({})({});", type, value), {}});
}

std::unique_ptr<Plan> plan_arange(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::ArangeAttrs>();
  if (is_float(a.dtype))
    return plan_values(request, fmt::format("{} + i * {}", cuda::literal(a.start), cuda::literal(a.step)));
  return plan_values(
      request, fmt::format("{}ll + i * {}ll", static_cast<std::int64_t>(a.start), static_cast<std::int64_t>(a.step)));
}

// Counts from the nearer end, so that both ends are exact.
std::unique_ptr<Plan> plan_linspace(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::LinspaceAttrs>();
  const std::string step = cuda::literal(a.count > 1 ? (a.end - a.start) / static_cast<double>(a.count - 1) : 0);
  return plan_values(request, fmt::format("i < {0}ll - i ? {1} + i * {2} : {3} - ({0}ll - 1 - i) * {2}", a.count,
                                          cuda::literal(a.start), step, cuda::literal(a.end)));
}

std::unique_ptr<Plan> plan_eye(const PlanRequest& request) { return plan_values(request, "x0 == x1 ? 1 : 0"); }

// Every result repeats its operand along the other axes.
std::unique_ptr<Plan> plan_meshgrid(const PlanRequest& request) {
  const bool swapped = request.attrs.as<op::MeshgridAttrs>().indexing.str() == "xy" && request.in.size() > 1;
  const Shape& shape = request.out[0].shape;
  std::vector<cuda::Stage> stages;
  for (std::size_t k = 0; k < request.in.size(); ++k) {
    Shape strides = Shape::filled(shape.rank(), 0);
    strides[static_cast<int>(swapped && k < 2 ? 1 - k : k)] = 1;
    const DType dtype = request.in[k].dtype;
    stages.push_back(cuda::chain_stage(cuda::move_chain(dtype, shape, strides, {dtype, contiguous_strides(shape)}),
                                       {{cuda::Pointer::Of::in, k}, {cuda::Pointer::Of::out, k}}));
  }
  return cuda::plan_stages(std::move(stages));
}

}  // namespace

void register_cuda_create(KernelTable& table) {
  table.add("arange", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_arange});
  table.add("linspace", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_linspace});
  table.add("eye", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_eye});
  table.add("meshgrid", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_meshgrid});
}

}  // namespace starling::kernels
