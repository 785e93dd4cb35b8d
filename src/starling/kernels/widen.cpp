#include "starling/kernels/widen.h"

#include <algorithm>

#include "starling/base/round_up.h"
#include "starling/kernels/cpu/simd/cast.h"

namespace starling::kernels {
namespace {

// Operand or result with an f32 copy in scratch.
struct Wide {
  std::size_t index;
  DType dtype;
  std::int64_t count;
  std::size_t offset;
};

class WidePlan final : public Plan {
 public:
  WidePlan(std::span<const ArgDesc> in, std::span<const ArgDesc> out, std::unique_ptr<Plan> inner)
      : inner_(std::move(inner)), in_count_(in.size()), out_count_(out.size()) {
    scratch_bytes = round_up(inner_->scratch_bytes);
    for (std::size_t i = 0; i < in.size(); ++i) place(in[i], i, in_);
    for (std::size_t i = 0; i < out.size(); ++i) place(out[i], i, out_);
  }

  void run(const Launch& launch) const override {
    SmallVector<void*, 8> in, out;
    in.resize(in_count_);
    out.resize(out_count_);
    std::copy_n(launch.in, in_count_, in.data());
    std::copy_n(launch.out, out_count_, out.data());
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    for (const auto& wide : in_) {
      cast_array(wide.dtype, launch.in[wide.index], DType::f32, scratch + wide.offset, wide.count);
      in[wide.index] = scratch + wide.offset;
    }
    for (const auto& wide : out_) out[wide.index] = scratch + wide.offset;
    inner_->run({in.data(), out.data(), launch.scratch, launch.context});
    for (const auto& wide : out_)
      cast_array(DType::f32, scratch + wide.offset, wide.dtype, launch.out[wide.index], wide.count);
  }

 private:
  void place(const ArgDesc& arg, std::size_t index, std::vector<Wide>& into) {
    if (!is_half(arg.dtype)) return;
    const std::int64_t count = arg.shape.numel();
    into.push_back({index, arg.dtype, count, scratch_bytes});
    scratch_bytes += round_up(static_cast<std::size_t>(count) * sizeof(float));
  }

  std::unique_ptr<Plan> inner_;
  std::size_t in_count_, out_count_;
  std::vector<Wide> in_, out_;
};

std::vector<ArgDesc> widened(std::span<const ArgDesc> args) {
  std::vector<ArgDesc> wide(args.begin(), args.end());
  for (auto& arg : wide) {
    if (is_half(arg.dtype)) arg = dense({DType::f32, arg.shape});
  }
  return wide;
}

}  // namespace

bool has_halves(std::span<const ArgDesc> in, std::span<const ArgDesc> out) {
  const auto half = [](const ArgDesc& arg) { return is_half(arg.dtype); };
  return std::any_of(in.begin(), in.end(), half) || std::any_of(out.begin(), out.end(), half);
}

Planned plan_widened(std::span<const ArgDesc> in, std::span<const ArgDesc> out, PlanFn plan) {
  Planned planned = plan(widened(in), widened(out));
  if (!planned.plan) return planned;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (is_half(in[i].dtype)) planned.densify[i] = !in[i].contiguous();
  }
  planned.plan = std::make_unique<WidePlan>(in, out, std::move(planned.plan));
  return planned;
}

}  // namespace starling::kernels
