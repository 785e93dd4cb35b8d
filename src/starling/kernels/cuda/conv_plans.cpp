#include "starling/kernels/cuda/conv_plans.h"

#include "starling/kernels/cuda/product_plans.h"
#include "starling/kernels/storable.h"

namespace starling::cuda {
namespace {

using kernels::ArgDesc;
using kernels::Launch;
using kernels::Plan;

ArgDesc stored(const ArgDesc& arg, bool channels_last) {
  ArgDesc made = kernels::dense({arg.dtype, arg.shape});
  if (channels_last && arg.shape.rank() == 4) made.strides = kernels::channels_last_strides(arg.shape);
  return made;
}

// True if both orders of the elements are the same: sizes of 1 move nothing.
bool alike(const ArgDesc& a, const ArgDesc& b) {
  for (int d = 0; d < a.shape.rank(); ++d) {
    if (a.shape[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

// Copy in scratch of an operand or result of the library's kernel, where the kernel cannot use it as it is stored.
struct ScratchCopy {
  std::shared_ptr<const Plan> copy{};  // null: used where it is
  std::size_t offset = 0;
  void* at(void* given, const Launch& launch) const {
    return copy ? library_aligned(static_cast<std::byte*>(launch.scratch) + offset) : given;
  }
};

class ScratchCopies {
 public:
  explicit ScratchCopies(std::size_t bytes) : bytes_(bytes) {}

  ScratchCopy operand(const ArgDesc& arg, bool channels_last) {
    const ArgDesc wanted = stored(arg, channels_last);
    return alike(arg, wanted) ? ScratchCopy{} : copied(arg, wanted);
  }
  ScratchCopy result(const ArgDesc& arg, bool channels_last) {
    const ArgDesc made = stored(arg, channels_last);
    return alike(arg, made) ? ScratchCopy{} : copied(made, arg);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  ScratchCopy copied(const ArgDesc& from, const ArgDesc& to) {
    static const Attrs none;
    static const OpDef nothing{.name = "copy"};
    ScratchCopy made{plan_copy({nothing, none, {&from, 1}, {&to, 1}, 1}), bytes_};
    bytes_ += library_scratch((kernels::bytes_of(to) + 255) / 256 * 256);
    return made;
  }
  std::size_t bytes_;
};

// Channels last if an operand or result that is an image is.
bool wants_channels_last(ConvPass pass, const kernels::PlanRequest& request) {
  if (kernels::is_channels_last(request.in[0])) return true;
  return kernels::is_channels_last(pass == ConvPass::weight ? request.in[1] : request.out[0]);
}

bool has_library_types(const kernels::PlanRequest& request) {
  for (const ArgDesc& arg : request.in) {
    if (arg.dtype != request.in[0].dtype) return false;
  }
  return real_of(request.in[0].dtype) && request.out[0].dtype == request.in[0].dtype;
}

// Milliseconds of a kernel of its own that finishes a result: its launch, and what it reads and writes.
float finishing_time(const ArgDesc& out, bool residual) {
  constexpr float kLaunch = 0.002f, kBytesPerMs = 3e9f;
  return kLaunch + static_cast<float>(kernels::bytes_of(out)) * (residual ? 3 : 2) / kBytesPerMs;
}

}  // namespace

std::unique_ptr<Plan> plan_finished(const device::Conv& conv, const kernels::PlanRequest& request,
                                    device::Activation activation) {
  using device::Activation;
  const bool residual = request.in.size() > 3;
  if (request.in.size() < 3 || (activation != Activation::relu && activation != Activation::none)) return nullptr;
  if (!has_products(conv) || !has_library_types(request) || !request.in[2].contiguous()) return nullptr;
  const ConvStorage storage{request.in[0].dtype, wants_channels_last(ConvPass::forward, request)};
  const auto plain = cudnn_convolution(ConvPass::forward, conv, storage);
  const auto chosen =
      cudnn_finished_convolution(conv, storage, {.relu = activation == Activation::relu, .residual = residual});
  if (!chosen) return nullptr;
  if (plain && chosen->milliseconds > plain->milliseconds + finishing_time(request.out[0], residual)) return nullptr;
  ScratchCopies copies((chosen->scratch_bytes + 255) / 256 * 256);
  const ScratchCopy x = copies.operand(request.in[0], storage.channels_last);
  const ScratchCopy w = copies.operand(request.in[1], storage.channels_last);
  const ScratchCopy more = residual ? copies.operand(request.in[3], storage.channels_last) : ScratchCopy{};
  const ScratchCopy result = copies.result(request.out[0], storage.channels_last);
  return kernels::make_plan(copies.bytes(), [=](const Launch& launch) {
    void* const from_x = x.at(launch.in[0], launch);
    void* const from_w = w.at(launch.in[1], launch);
    void* const added = residual ? more.at(launch.in[3], launch) : nullptr;
    void* const y = result.at(launch.out[0], launch);
    if (x.copy) x.copy->run({&launch.in[0], &from_x, nullptr, launch.context});
    if (w.copy) w.copy->run({&launch.in[1], &from_w, nullptr, launch.context});
    if (more.copy) more.copy->run({&launch.in[3], &added, nullptr, launch.context});
    chosen->run(from_x, from_w, launch.in[2], added, y, launch.scratch, stream_of(launch));
    if (result.copy) result.copy->run({&y, &launch.out[0], nullptr, launch.context});
  });
}

std::unique_ptr<Plan> plan_cudnn(ConvPass pass, const device::Conv& conv, const kernels::PlanRequest& request,
                                 std::shared_ptr<const Plan> epilogue) {
  if (!has_products(conv) || !real_of(request.in[0].dtype) || request.in[1].dtype != request.in[0].dtype ||
      request.out[0].dtype != request.in[0].dtype)
    return nullptr;
  const ConvStorage storage{request.in[0].dtype, wants_channels_last(pass, request)};
  const auto chosen = cudnn_convolution(pass, conv, storage);
  if (!chosen) return nullptr;
  ScratchCopies copies((chosen->scratch_bytes + 255) / 256 * 256);
  const ScratchCopy first = copies.operand(request.in[0], storage.channels_last);
  const ScratchCopy second = copies.operand(request.in[1], storage.channels_last);
  const ScratchCopy result = copies.result(request.out[0], storage.channels_last);
  return kernels::make_plan(copies.bytes(), [=](const Launch& launch) {
    void* const a = first.at(launch.in[0], launch);
    void* const b = second.at(launch.in[1], launch);
    void* const c = result.at(launch.out[0], launch);
    if (first.copy) first.copy->run({&launch.in[0], &a, nullptr, launch.context});
    if (second.copy) second.copy->run({&launch.in[1], &b, nullptr, launch.context});
    chosen->run(a, b, c, launch.scratch, stream_of(launch));
    if (result.copy) result.copy->run({&c, &launch.out[0], nullptr, launch.context});
    if (epilogue) epilogue->run(launch);
  });
}

std::unique_ptr<Plan> plan_forward(const device::Conv& conv, const kernels::PlanRequest& request,
                                   device::Activation activation) {
  if (auto finished = plan_finished(conv, request, activation)) return finished;
  return plan_cudnn(ConvPass::forward, conv, request, plan_bias_epilogue(request, request.in.size() >= 3, activation));
}

std::shared_ptr<const Plan> plan_bias_epilogue(const kernels::PlanRequest& request, bool biased,
                                               device::Activation activation) {
  const bool residual = request.in.size() > 3;
  if (!biased && activation == device::Activation::none) return nullptr;
  const ArgDesc& out = request.out[0];
  Chain chain{.shape = out.shape, .operands = {{out.dtype, out.strides}}, .steps = {}, .outputs = {}};
  std::vector<Pointer> pointers{{Pointer::Of::out, 0}};
  int value = 0;
  if (biased) {
    Shape strides = Shape::filled(out.shape.rank(), 0);
    strides[1] = request.in[2].strides[0];
    chain.operands.push_back({request.in[2].dtype, strides});
    chain.steps.push_back({"a + b", {0, 1}, DType::f32, {}});
    pointers.push_back({Pointer::Of::in, 2});
    value = 2;
  }
  if (residual) {
    // Values are numbered operands first, so that the residual's number comes before that of the sum above.
    chain.operands.push_back({request.in[3].dtype, request.in[3].strides});
    chain.steps = {{"a + b", {0, 1}, DType::f32, {}}, {"a + b", {3, 2}, DType::f32, {}}};
    pointers.push_back({Pointer::Of::in, 3});
    value = 4;
  }
  chain.steps.push_back({activation_expression(activation, false), {value}, out.dtype, {}});
  chain.outputs = {value + 1};
  pointers.push_back({Pointer::Of::out, 0});
  return plan_stages({chain_stage(in_order_of(std::move(chain), out.strides), std::move(pointers))});
}

}  // namespace starling::cuda
