#include "starling/kernels/cuda/device/attention.h"

#include <algorithm>
#include <limits>

#include "starling/kernels/attention_shape.h"
#include "starling/kernels/cuda/device/flash_attention.h"
#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using device::Attention;

bool set_rows(const AttentionShape& s, const Shape& strides, Attention::Rows& rows) {
  if (strides.back() != 1) return false;
  for (int i = 0; i < s.leading.rank(); ++i) rows.leading[i] = strides[i];
  rows.row = s.row_stride(strides);
  return true;
}

// Sizes and strides for device code; false if it does not take them.
bool device_attention(const AttentionShape& s, bool backward, Attention& a) {
  a = {};
  if (s.leading.rank() > Attention::kMaxLeading || std::max(s.d, s.dv) > device::kMostAttention) return false;
  if (std::max(s.queries, s.keys) > std::numeric_limits<int>::max() / 2) return false;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  a.batch = s.batch;
  a.queries = number(s.queries), a.keys = number(s.keys), a.d = number(s.d), a.dv = number(s.dv);
  a.scale = static_cast<float>(s.scale);
  a.causal = s.causal;
  a.rank = s.leading.rank();
  for (int i = 0; i < a.rank; ++i) a.sizes[i] = s.leading[i];
  a.mask_kind = s.mask == AttentionShape::Mask::none      ? Attention::none
                : s.mask == AttentionShape::Mask::boolean ? Attention::boolean
                                                          : Attention::added;
  if (s.mask != AttentionShape::Mask::none) {
    for (int i = 0; i < a.rank; ++i) a.mask_leading[i] = s.mask_strides[i];
    a.mask_row = s.mask_row_stride(), a.mask_column = s.mask_col_stride();
  }
  return set_rows(s, s.q_strides, a.q) && set_rows(s, s.k_strides, a.k) && set_rows(s, s.v_strides, a.v) &&
         (!backward || set_rows(s, s.dy_strides, a.dy));
}

bool floats(const PlanRequest& request, std::size_t count, std::size_t mask) {
  if (!cuda::all_f32(request.in.subspan(0, count))) return false;
  return request.in.size() <= mask || request.in[mask].dtype == DType::f32 || request.in[mask].dtype == DType::boolean;
}

std::unique_ptr<Plan> plan_cleared(const PlanRequest& request) {
  std::vector<std::size_t> bytes;
  for (const auto& out : request.out) bytes.push_back(bytes_of(out));
  return make_plan([bytes](const Launch& launch) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      check_cuda(cudaMemsetAsync(launch.out[i], 0, bytes[i], cuda::stream_of(launch)), "clearing a result");
  });
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  if (!floats(request, 3, 3)) return nullptr;
  const AttentionShape s = attention_shape(request, 0, 3);
  if (s.batch == 0 || s.queries == 0 || s.keys == 0 || s.dv == 0 || s.d == 0) {
    return s.d == 0 && s.batch * s.queries * s.keys > 0 ? nullptr : plan_cleared(request);
  }
  Attention a;
  if (!device_attention(s, false, a)) return nullptr;
  check_cuda(device::load_attention(a), "loading a kernel");
  return make_plan([a, masked = request.in.size() > 3](const Launch& l) {
    check_cuda(device::launch_attention(a, input<float>(l, 0), input<float>(l, 1), input<float>(l, 2),
                                        masked ? l.in[3] : nullptr, output<float>(l, 0), output<float>(l, 1),
                                        cuda::stream_of(l)),
               "launching attention");
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  if (!floats(request, 7, 7)) return nullptr;
  // y, lse and their gradient are read as dense rows.
  if (!request.in[1].contiguous() || !request.in[5].contiguous() || !request.in[6].contiguous()) return nullptr;
  const AttentionShape s = attention_shape(request, 2, 7);
  if (s.batch == 0 || s.queries == 0 || s.keys == 0 || s.dv == 0 || s.d == 0) {
    return s.d == 0 && s.batch * s.queries * s.keys > 0 ? nullptr : plan_cleared(request);
  }
  Attention a;
  if (!device_attention(s, true, a)) return nullptr;
  check_cuda(device::load_attention(a), "loading a kernel");
  const auto rows = static_cast<std::size_t>(s.batch * s.queries);
  return make_plan(rows * sizeof(float), [a, masked = request.in.size() > 7](const Launch& l) {
    const device::AttentionBackward b{input<float>(l, 0),  input<float>(l, 1),         input<float>(l, 2),
                                      input<float>(l, 3),  input<float>(l, 4),         input<float>(l, 5),
                                      input<float>(l, 6),  masked ? l.in[7] : nullptr, output<float>(l, 0),
                                      output<float>(l, 1), output<float>(l, 2)};
    check_cuda(device::launch_attention_backward(a, b, static_cast<float*>(l.scratch), cuda::stream_of(l)),
               "launching attention");
  });
}

// True if operands `first` to `last` are 16-bit floats of one kind; lse and its gradient, operands of `stats`, may be
// f32.
bool halves(const PlanRequest& request, std::size_t count, std::initializer_list<std::size_t> stats) {
  const DType dtype = request.in[0].dtype;
  if (!is_half(dtype)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const bool wide = std::find(stats.begin(), stats.end(), i) != stats.end() && request.in[i].dtype == DType::f32;
    if (!wide && request.in[i].dtype != dtype) return false;
  }
  return true;
}

std::unique_ptr<Plan> plan_flash(const PlanRequest& request) {
  Attention a;
  if (request.in.size() != 3 || !halves(request, 3, {}) || request.out[0].dtype != request.in[0].dtype) return nullptr;
  const auto stats = cuda::real_of(request.out[1].dtype);
  if (!stats || !device_attention(attention_shape(request, 0, 3), false, a) || !device::takes_flash(a)) return nullptr;
  const device::Real kind = *cuda::real_of(request.in[0].dtype);
  check_cuda(device::load_flash(kind, a.d), "loading a kernel");
  return make_plan([a, kind, stats = *stats](const Launch& l) {
    const device::FlashForward f{l.in[0], l.in[1], l.in[2], l.out[0], {l.out[1], stats}};
    check_cuda(device::launch_flash(a, kind, f, cuda::stream_of(l)), "launching attention");
  });
}

std::unique_ptr<Plan> plan_flash_backward(const PlanRequest& request) {
  Attention a;
  if (request.in.size() != 7 || !halves(request, 7, {1, 6}) || request.out[0].dtype != request.in[0].dtype)
    return nullptr;
  if (!request.in[1].contiguous() || !request.in[5].contiguous() || !request.in[6].contiguous()) return nullptr;
  const auto dlse = cuda::real_of(request.in[1].dtype), lse = cuda::real_of(request.in[6].dtype);
  const AttentionShape s = attention_shape(request, 2, 7);
  if (!device_attention(s, true, a) || !device::takes_flash(a)) return nullptr;
  const device::Real kind = *cuda::real_of(request.in[0].dtype);
  check_cuda(device::load_flash(kind, a.d), "loading a kernel");
  const auto rows = static_cast<std::size_t>(s.batch * s.queries);
  return make_plan(rows * sizeof(float), [a, kind, dlse = *dlse, lse = *lse](const Launch& l) {
    const device::FlashBackward b{l.in[2],  l.in[3],        l.in[4],         l.in[5],
                                  l.in[0],  {l.in[6], lse}, {l.in[1], dlse}, static_cast<float*>(l.scratch),
                                  l.out[0], l.out[1],       l.out[2]};
    check_cuda(device::launch_flash_backward(a, kind, b, cuda::stream_of(l)), "launching attention");
  });
}

}  // namespace

// With strides first, which saves copies of transposed heads; then of dense operands.
void register_cuda_attention(KernelTable& table) {
  cuda::add_storable("scaled_dot_product_attention", {.wide_out = numbered({1})});
  cuda::add_storable("scaled_dot_product_attention_backward", {.wide_in = numbered({1, 6})});
  for (const Accepts accepts : {Accepts::strided, Accepts::contiguous}) {
    table.add("scaled_dot_product_attention", DeviceKind::cuda, {"flash", accepts, plan_flash});
    table.add("scaled_dot_product_attention_backward", DeviceKind::cuda, {"flash", accepts, plan_flash_backward});
  }
  for (const Accepts accepts : {Accepts::strided, Accepts::contiguous}) {
    table.add("scaled_dot_product_attention", DeviceKind::cuda, {"tiles", accepts, plan_forward});
    table.add("scaled_dot_product_attention_backward", DeviceKind::cuda, {"tiles", accepts, plan_backward});
  }
}

}  // namespace starling::kernels
