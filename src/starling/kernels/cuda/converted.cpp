#include <algorithm>

#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/widen.h"

namespace starling::kernels {
namespace {

// Operand or result with a dense f32 copy in scratch.
struct Copied {
  std::size_t index;
  std::size_t offset;
  std::shared_ptr<const Plan> copy;  // to the copy of an operand, from that of a result
};

std::shared_ptr<const Plan> copy_plan(const ArgDesc& from, const ArgDesc& to) {
  static const Attrs none;
  static const OpDef nothing{.name = "copy"};
  return cuda::plan_copy({nothing, none, {&from, 1}, {&to, 1}, 1});
}

ArgDesc converted(const ArgDesc& arg) { return dense({is_half(arg.dtype) ? DType::f32 : arg.dtype, arg.shape}); }

class ConvertedPlan final : public Plan {
 public:
  ConvertedPlan(std::span<const ArgDesc> in, std::span<const ArgDesc> out, std::span<const ArgDesc> plain_in,
                std::span<const ArgDesc> plain_out, std::unique_ptr<Plan> inner)
      : inner_(std::move(inner)), in_count_(in.size()), out_count_(out.size()) {
    scratch_bytes = padded(inner_->scratch_bytes);
    for (std::size_t i = 0; i < in.size(); ++i) place(in[i], plain_in[i], i, true, in_);
    for (std::size_t i = 0; i < out.size(); ++i) place(out[i], plain_out[i], i, false, out_);
  }

  void run(const Launch& launch) const override {
    SmallVector<void*, 8> in, out;
    in.resize(in_count_);
    out.resize(out_count_);
    std::copy_n(launch.in, in_count_, in.data());
    std::copy_n(launch.out, out_count_, out.data());
    const auto scratch = [&](std::size_t offset) -> void* { return static_cast<std::byte*>(launch.scratch) + offset; };
    for (const auto& one : in_) {
      void* const to = scratch(one.offset);
      one.copy->run({&launch.in[one.index], &to, nullptr, launch.context});
      in[one.index] = to;
    }
    for (const auto& one : out_) out[one.index] = scratch(one.offset);
    inner_->run({in.data(), out.data(), launch.scratch, launch.context});
    for (const auto& one : out_) {
      void* const from = scratch(one.offset);
      one.copy->run({&from, &launch.out[one.index], nullptr, launch.context});
    }
  }

 private:
  static std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  void place(const ArgDesc& arg, const ArgDesc& plain, std::size_t index, bool operand, std::vector<Copied>& into) {
    if (arg == plain) return;
    into.push_back({index, scratch_bytes, operand ? copy_plan(arg, plain) : copy_plan(plain, arg)});
    scratch_bytes += padded(bytes_of(plain));
  }

  std::unique_ptr<Plan> inner_;
  std::size_t in_count_, out_count_;
  std::vector<Copied> in_, out_;
};

}  // namespace

Planned plan_converted(std::span<const ArgDesc> in, std::span<const ArgDesc> out, PlanFn plan) {
  std::vector<ArgDesc> plain_in, plain_out;
  for (const auto& arg : in) plain_in.push_back(is_half(arg.dtype) ? converted(arg) : arg);
  for (const auto& arg : out) plain_out.push_back(converted(arg));
  if (std::equal(in.begin(), in.end(), plain_in.begin()) && std::equal(out.begin(), out.end(), plain_out.begin()))
    return {};
  Planned planned = plan(plain_in, plain_out);
  if (!planned.plan) return planned;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (is_half(in[i].dtype)) planned.densify[i] = false;
    // Copied to dense memory by the caller.
    if (planned.densify[i]) plain_in[i].strides = contiguous_strides(in[i].shape);
  }
  std::vector<ArgDesc> given(in.begin(), in.end());
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (planned.densify[i]) given[i] = plain_in[i];
  }
  planned.plan = std::make_unique<ConvertedPlan>(given, out, plain_in, plain_out, std::move(planned.plan));
  return planned;
}

}  // namespace starling::kernels
