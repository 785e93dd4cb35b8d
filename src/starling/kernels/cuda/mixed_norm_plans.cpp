#include <limits>

#include "starling/kernels/cuda/device/column_norm.h"
#include "starling/kernels/cuda/device/row_norm.h"
#include "starling/kernels/cuda/norm_plans.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/storable.h"

namespace starling::cuda {

using kernels::ArgDesc;
using kernels::Launch;
using kernels::make_plan;
using kernels::Plan;
using kernels::PlanRequest;

namespace {

const float* floats_at(const Launch& launch, int i) {
  return i < 0 ? nullptr : static_cast<const float*>(launch.in[static_cast<std::size_t>(i)]);
}

// Operand by number, as device code reads it.
struct Reader {
  int at = -1;
  device::Real kind = device::Real::f32;
  device::Reals on(const Launch& launch) const { return {floats_at(launch, at), kind}; }
};

// False if an operand is neither f32 nor a 16-bit float, or an image of another order than the rest.
bool read(const PlanRequest& request, int at, bool images, Reader& reader) {
  if (at < 0) return true;
  const ArgDesc& arg = request.in[static_cast<std::size_t>(at)];
  const auto kind = real_of(arg.dtype);
  if (!kind || (images ? !kernels::is_channels_last(arg) : !arg.contiguous())) return false;
  reader = {at, *kind};
  return true;
}

// True if all operands but these, and all results but the first, are f32.
bool others_are_f32(const PlanRequest& request, std::initializer_list<int> but) {
  for (std::size_t i = 0; i < request.in.size(); ++i) {
    bool mine = false;
    for (int one : but) mine = mine || static_cast<std::size_t>(one) == i;
    if (!mine && request.in[i].dtype != DType::f32) return false;
  }
  return all_f32(request.out.subspan(1));
}

device::ColumnNorm columns_of(const Shape& x, double eps) {
  return {x.numel() / x[1], static_cast<int>(x[1]), static_cast<float>(eps)};
}

bool are_columns(const ArgDesc& x, const ArgDesc& out) {
  return kernels::is_channels_last(x) && kernels::is_channels_last(out) && real_of(out.dtype) &&
         x.shape[1] <= std::numeric_limits<int>::max() &&
         device::takes_columns(x.shape.numel() / x.shape[1], x.shape[1]);
}

bool rows_of(const PlanRequest& request, std::size_t x, const NormView& v, device::RowNorm& norm) {
  if (v.x.rank() != 2 || !request.in[x].contiguous() || !request.out[0].contiguous()) return false;
  if (!real_of(request.out[0].dtype) || v.x[1] > 1024) return false;
  norm = {v.x[0], static_cast<int>(v.x[1]), static_cast<float>(v.eps), v.centred};
  return device::takes_rows(norm);
}

}  // namespace

std::unique_ptr<Plan> plan_column_norm(const PlanRequest& request, const ColumnOperands& which, double eps) {
  const ArgDesc& x = request.in[static_cast<std::size_t>(which.x)];
  Reader image, residual;
  if (!are_columns(x, request.out[0]) || !read(request, which.x, true, image) ||
      !read(request, which.residual, true, residual) || !others_are_f32(request, {which.x, which.residual}))
    return nullptr;
  check_cuda(device::load_column_norm(), "loading a kernel");
  const device::ColumnNorm norm = columns_of(x.shape, eps);
  const auto bytes = static_cast<std::size_t>(device::column_norm_scratch(norm)) * sizeof(float);
  return make_plan(bytes, [=, to = *real_of(request.out[0].dtype)](const Launch& launch) {
    const device::ColumnNormForward f{image.on(launch),
                                      floats_at(launch, which.weight),
                                      floats_at(launch, which.bias),
                                      residual.on(launch),
                                      which.relu,
                                      {launch.out[0], to},
                                      output<float>(launch, 1),
                                      output<float>(launch, 2)};
    check_cuda(device::launch_column_norm(norm, f, static_cast<float*>(launch.scratch), stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_column_norm_backward(const PlanRequest& request, const ColumnSlopes& which, double eps) {
  const ArgDesc& x = request.in[static_cast<std::size_t>(which.x)];
  Reader dy, y, image;
  if (!are_columns(x, request.out[0]) || !read(request, which.dy, true, dy) || !read(request, which.y, true, y) ||
      !read(request, which.x, true, image) || !others_are_f32(request, {which.dy, which.y, which.x}))
    return nullptr;
  check_cuda(device::load_column_norm(), "loading a kernel");
  const device::ColumnNorm norm = columns_of(x.shape, eps);
  const auto bytes = static_cast<std::size_t>(device::column_norm_scratch(norm)) * sizeof(float);
  const bool weighted = which.weight >= 0;
  return make_plan(bytes, [=, to = *real_of(request.out[0].dtype)](const Launch& launch) {
    const device::ColumnNormBackward b{dy.on(launch),
                                       y.on(launch),
                                       floats_at(launch, which.bias),
                                       image.on(launch),
                                       floats_at(launch, which.mean),
                                       floats_at(launch, which.var),
                                       floats_at(launch, which.weight),
                                       {launch.out[0], to},
                                       weighted ? output<float>(launch, 1) : nullptr,
                                       weighted ? output<float>(launch, 2) : nullptr};
    check_cuda(device::launch_column_norm_backward(norm, b, static_cast<float*>(launch.scratch), stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_mixed_norm(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {DType::f32, request.in[0].shape}, request.attrs);
  const int operands = static_cast<int>(request.in.size());
  if (request.op.name == "batch_norm_train")
    return plan_column_norm(request, {.x = 0, .weight = operands > 1 ? 1 : -1, .bias = operands > 2 ? 2 : -1}, v.eps);
  device::RowNorm norm;
  Reader x;
  if (!rows_of(request, 0, v, norm) || !read(request, 0, false, x) || !others_are_f32(request, {0})) return nullptr;
  check_cuda(device::load_row_norm(), "loading a kernel");
  return make_plan([=, to = *real_of(request.out[0].dtype)](const Launch& launch) {
    const device::RowNormForward f{x.on(launch),
                                   floats_at(launch, operands > 1 ? 1 : -1),
                                   floats_at(launch, operands > 2 ? 2 : -1),
                                   {launch.out[0], to},
                                   norm.centred ? output<float>(launch, 1) : nullptr,
                                   output<float>(launch, norm.centred ? 2 : 1)};
    check_cuda(device::launch_row_norm(norm, f, stream_of(launch)), "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_mixed_norm_backward(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {DType::f32, request.in[1].shape}, request.attrs);
  const int var = v.centred ? 3 : 2;
  const bool weighted = static_cast<int>(request.in.size()) > var + 1;
  if (request.op.name == "batch_norm_train_backward")
    return plan_column_norm_backward(request, {.weight = weighted ? var + 1 : -1}, v.eps);
  device::RowNorm norm;
  Reader dy, x;
  if (!rows_of(request, 1, v, norm) || !read(request, 0, false, dy) || !read(request, 1, false, x) ||
      !others_are_f32(request, {0, 1}))
    return nullptr;
  check_cuda(device::load_row_norm(), "loading a kernel");
  const auto bytes = static_cast<std::size_t>(device::row_norm_scratch(norm)) * sizeof(float);
  return make_plan(bytes, [=, to = *real_of(request.out[0].dtype)](const Launch& launch) {
    const device::RowNormBackward b{dy.on(launch),
                                    x.on(launch),
                                    norm.centred ? floats_at(launch, 2) : nullptr,
                                    floats_at(launch, var),
                                    floats_at(launch, weighted ? var + 1 : -1),
                                    {launch.out[0], to},
                                    weighted ? output<float>(launch, 1) : nullptr,
                                    weighted && norm.centred ? output<float>(launch, 2) : nullptr};
    check_cuda(device::launch_row_norm_backward(norm, b, static_cast<float*>(launch.scratch), stream_of(launch)),
               "launching a kernel");
  });
}

}  // namespace starling::cuda
