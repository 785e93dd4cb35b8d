#include "starling/kernels/cuda/device/attention.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "starling/base/small_vector.h"
#include "starling/kernels/attention_shape.h"
#include "starling/kernels/cuda/device/flash_attention.h"
#include "starling/kernels/cuda/library_attention.h"
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

// Rows of the results, and of y if it is an operand.
bool set_results(const AttentionShape& s, const PlanRequest& request, bool backward, Attention& a) {
  if (!backward) return set_rows(s, request.out[0].strides, a.y);
  return set_rows(s, request.in[5].strides, a.y) && set_rows(s, request.out[0].strides, a.dq) &&
         set_rows(s, request.out[1].strides, a.dk) && set_rows(s, request.out[2].strides, a.dv_rows);
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

bool all_dense(std::span<const ArgDesc> args) {
  return std::all_of(args.begin(), args.end(), [](const ArgDesc& arg) { return arg.contiguous(); });
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
  if (!floats(request, 3, 3) || !all_dense(request.out)) return nullptr;
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
  if (!floats(request, 7, 7) || !all_dense(request.out)) return nullptr;
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

// Sizes, strides and kinds of floats of attention on tensor cores.
struct Halves {
  Attention attention{};
  device::Real kind{}, lse{}, dlse{};
};

std::optional<Halves> halves_forward(const PlanRequest& request) {
  if (request.in.size() != 3 || !halves(request, 3, {}) || request.out[0].dtype != request.in[0].dtype) return {};
  const AttentionShape s = attention_shape(request, 0, 3);
  const auto lse = cuda::real_of(request.out[1].dtype);
  Halves made;
  if (!lse || !request.out[1].contiguous() || !device_attention(s, false, made.attention) ||
      !set_results(s, request, false, made.attention))
    return {};
  made.kind = *cuda::real_of(request.in[0].dtype), made.lse = *lse;
  return made;
}

std::optional<Halves> halves_backward(const PlanRequest& request) {
  if (request.in.size() != 7 || !halves(request, 7, {1, 6})) return {};
  for (const ArgDesc& out : request.out) {
    if (out.dtype != request.in[0].dtype) return {};
  }
  if (!request.in[1].contiguous() || !request.in[6].contiguous()) return {};
  const AttentionShape s = attention_shape(request, 2, 7);
  Halves made;
  if (!device_attention(s, true, made.attention) || !set_results(s, request, true, made.attention)) return {};
  made.kind = *cuda::real_of(request.in[0].dtype);
  made.dlse = *cuda::real_of(request.in[1].dtype), made.lse = *cuda::real_of(request.in[6].dtype);
  return made;
}

device::FlashForward forward_pointers(const Launch& l, const Halves& h) {
  return {l.in[0], l.in[1], l.in[2], l.out[0], {l.out[1], h.lse}};
}
device::FlashBackward backward_pointers(const Launch& l, const Halves& h) {
  return {l.in[2],  l.in[3],          l.in[4],           l.in[5],
          l.in[0],  {l.in[6], h.lse}, {l.in[1], h.dlse}, static_cast<float*>(l.scratch),
          l.out[0], l.out[1],         l.out[2]};
}

std::unique_ptr<Plan> plan_flash(const PlanRequest& request) {
  const auto h = halves_forward(request);
  if (!h || !device::takes_flash(h->attention)) return nullptr;
  check_cuda(device::load_flash(h->kind, h->attention.d), "loading a kernel");
  return make_plan([h = *h](const Launch& l) {
    check_cuda(device::launch_flash(h.attention, h.kind, forward_pointers(l, h), cuda::stream_of(l)),
               "launching attention");
  });
}

std::unique_ptr<Plan> plan_flash_backward(const PlanRequest& request) {
  const auto h = halves_backward(request);
  if (!h || !device::takes_flash(h->attention)) return nullptr;
  check_cuda(device::load_flash(h->kind, h->attention.d), "loading a kernel");
  const auto rows = static_cast<std::size_t>(h->attention.batch * h->attention.queries);
  return make_plan(rows * sizeof(float), [h = *h](const Launch& l) {
    check_cuda(device::launch_flash_backward(h.attention, h.kind, backward_pointers(l, h), cuda::stream_of(l)),
               "launching attention");
  });
}

// Operands of a library that want addresses at multiples of 16 bytes. Those of views need not be: then our own kernels
// run or, where they do not take the sizes, the operands, which are dense, are copied to scratch.
class Aligned {
 public:
  Aligned(const PlanRequest& request, std::initializer_list<std::size_t> operands, std::size_t scratch)
      : scratch_(scratch) {
    for (const std::size_t i : operands) operands_.push_back({i, kernels::bytes_of(request.in[i])});
  }
  std::size_t bytes() const {
    std::size_t sum = scratch_;
    for (const auto& [i, bytes] : operands_) sum += padded(bytes);
    return sum;
  }
  bool are(const Launch& l) const {
    return std::all_of(operands_.begin(), operands_.end(), [&](const auto& one) { return is(l.in[one.first]); });
  }
  // Operands of a launch, copied where they must be.
  SmallVector<void*, 8> of(const Launch& l, std::size_t count) const {
    SmallVector<void*, 8> in;
    in.resize(count);
    std::copy_n(l.in, count, in.data());
    auto* to = static_cast<std::byte*>(l.scratch) + scratch_;
    for (const auto& [i, bytes] : operands_) {
      if (is(in[i])) continue;
      check_cuda(cudaMemcpyAsync(to, in[i], bytes, cudaMemcpyDeviceToDevice, cuda::stream_of(l)), "copying an operand");
      in[i] = to;
      to += padded(bytes);
    }
    return in;
  }
  static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  static bool is(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }
  std::size_t scratch_;
  std::vector<std::pair<std::size_t, std::size_t>> operands_;
};

// Plan of a library's attention with our own as fall-back. Null where ours is faster.
template <class Pointers>
std::unique_ptr<Plan> plan_library(const PlanRequest& request, cuda::AttentionPass pass, const std::optional<Halves>& h,
                                   std::unique_ptr<Plan> own, std::initializer_list<std::size_t> operands,
                                   Pointers pointers) {
  if (!h || h->lse != device::Real::f32) return nullptr;
  if (!own && !all_dense(request.in)) return nullptr;
  auto chosen = cuda::faster_attention(pass, h->attention, h->kind);
  if (!chosen) return nullptr;
  const std::size_t scratch = Aligned::padded(chosen->scratch_bytes);
  const Aligned aligned(request, operands, scratch);
  const std::size_t bytes = own ? std::max(scratch, own->scratch_bytes) : aligned.bytes();
  const std::size_t count = request.in.size();
  return make_plan(bytes, [=, h = *h, own = std::shared_ptr<const Plan>(std::move(own))](const Launch& l) {
    if (own && !aligned.are(l)) return own->run(l);
    const auto in = aligned.of(l, count);
    chosen->run(pointers({in.data(), l.out, l.scratch, l.context}, h), l.scratch, cuda::stream_of(l));
  });
}

std::unique_ptr<Plan> plan_library_forward(const PlanRequest& request) {
  return plan_library(request, cuda::AttentionPass::forward, halves_forward(request), plan_flash(request), {0, 1, 2},
                      forward_pointers);
}

std::unique_ptr<Plan> plan_library_backward(const PlanRequest& request) {
  if (!request.attrs.as<op::AttentionBackwardAttrs>().dlse_is_zero) return nullptr;
  return plan_library(request, cuda::AttentionPass::backward, halves_backward(request), plan_flash_backward(request),
                      {0, 2, 3, 4, 5, 6}, backward_pointers);
}

}  // namespace

// With strides first, which saves copies of transposed heads; then of dense operands.
void register_cuda_attention(KernelTable& table) {
  cuda::add_storable("scaled_dot_product_attention", {.wide_out = numbered({1}), .heads_out = numbered({0})});
  cuda::add_storable("scaled_dot_product_attention_backward", {.wide_in = numbered({1, 6}), .heads_out = each()});
  for (const Accepts accepts : {Accepts::strided, Accepts::contiguous}) {
    table.add("scaled_dot_product_attention", DeviceKind::cuda, {"cudnn", accepts, plan_library_forward});
    table.add("scaled_dot_product_attention_backward", DeviceKind::cuda, {"cudnn", accepts, plan_library_backward});
    table.add("scaled_dot_product_attention", DeviceKind::cuda, {"flash", accepts, plan_flash});
    table.add("scaled_dot_product_attention_backward", DeviceKind::cuda, {"flash", accepts, plan_flash_backward});
  }
  for (const Accepts accepts : {Accepts::strided, Accepts::contiguous}) {
    table.add("scaled_dot_product_attention", DeviceKind::cuda, {"tiles", accepts, plan_forward});
    table.add("scaled_dot_product_attention_backward", DeviceKind::cuda, {"tiles", accepts, plan_backward});
  }
}

}  // namespace starling::kernels
