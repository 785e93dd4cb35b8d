#include "starling/kernels/kernel_table.h"

#include "starling/base/error.h"
#include "starling/kernels/cpu/simd/target_choice.h"
#include "starling/kernels/on_host.h"
#include "starling/kernels/widen.h"
#include "starling/ops/def/registry.h"

// Generated from the families found in the source tree.
namespace starling::dist {
void register_dist_kernels(kernels::KernelTable& into);
}
namespace starling::train {
void register_train_kernels(kernels::KernelTable& into);
}

namespace starling::kernels {

void register_reference_kernels(KernelTable& into);
void register_cpu_kernels(KernelTable& into);
// cuda/register.cpp or no_cuda.cpp
void register_device_kernels(KernelTable& into);
// Plan of a kernel for dense f32 operands and results, with conversions on the device before and after it.
Planned plan_converted(std::span<const ArgDesc> in, std::span<const ArgDesc> out, PlanFn plan);

void KernelTable::add(std::string_view op, DeviceKind device, Kernel kernel) {
  by_device_[static_cast<std::size_t>(device)][find_op(op).id].push_back(std::move(kernel));
}

const std::vector<Kernel>& KernelTable::find(const OpDef& op, DeviceKind device) const {
  static const std::vector<Kernel> none;
  const auto& kernels = by_device_[static_cast<std::size_t>(device)];
  const auto it = kernels.find(op.id);
  return it == kernels.end() ? none : it->second;
}

const KernelTable& kernel_table() {
  static const KernelTable* table = [] {
    choose_simd_target();
    auto* t = new KernelTable;
    register_cpu_kernels(*t);
    dist::register_dist_kernels(*t);
    train::register_train_kernels(*t);
    register_reference_kernels(*t);
    register_device_kernels(*t);
    return t;
  }();
  return *table;
}

namespace {

Planned try_kernel(const Kernel& kernel, PlanRequest request, std::vector<ArgDesc>& in) {
  Planned planned;
  planned.densify.assign(in.size(), false);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (accepts(kernel.accepts, in[i])) continue;
    in[i].strides = contiguous_strides(in[i].shape);
    planned.densify[i] = true;
  }
  request.in = in;
  planned.plan = kernel.plan(request);
  planned.kernel = kernel.name;
  return planned;
}

std::string describe(std::span<const ArgDesc> args) {
  std::string text;
  for (const auto& arg : args) text += (text.empty() ? "" : ", ") + to_string(TensorType{arg.dtype, arg.shape});
  return text;
}

Planned find_plan(const OpDef& op, DeviceKind device, const Attrs& attrs, std::span<const ArgDesc> in,
                  std::span<const ArgDesc> out, const PlanOptions& options) {
  // The null device has no memory: whole programs are planned on it, and running them does nothing.
  if (device == DeviceKind::null) return {make_plan([](const Launch&) {}), "null", std::vector<bool>(in.size(), false)};
  using Which = bool (*)(const Kernel&);
  const Which fast = [](const Kernel& kernel) { return kernel.name != "reference"; };
  const Which plain = [](const Kernel& kernel) { return kernel.name == "reference"; };
  const auto plan_by = [&](Which which, std::span<const ArgDesc> from, std::span<const ArgDesc> to) {
    for (const auto& kernel : kernel_table().find(op, device)) {
      if (!which(kernel)) continue;
      std::vector<ArgDesc> operands(from.begin(), from.end());
      Planned planned = try_kernel(kernel, {op, attrs, from, to, options.threads}, operands);
      if (planned.plan) return planned;
    }
    return Planned{};
  };
  for (Which which : {fast, plain}) {
    if (options.reference_only && which == fast) continue;
    Planned planned = plan_by(which, in, out);
    if (planned.plan) return planned;
    const auto inner = [&](auto from, auto to) { return plan_by(which, from, to); };
    if (device == DeviceKind::cuda && which == fast)
      planned = plan_converted(in, out, inner);
    else if (device == DeviceKind::cpu && has_halves(in, out))
      planned = plan_widened(in, out, inner);
    if (planned.plan) return planned;
  }
  return {};
}

Planned or_refuse(Planned planned, const OpDef& op, DeviceKind device, std::span<const ArgDesc> in) {
  if (planned.plan) return planned;
  fail("[{}] expected a kernel for {}({}) on {}, got none", op.name, op.name, describe(in), name(device));
}

}  // namespace

Planned plan_kernel(const OpDef& op, DeviceKind device, const Attrs& attrs, std::span<const ArgDesc> in,
                    std::span<const ArgDesc> out, const PlanOptions& options) {
  return or_refuse(find_plan(op, device, attrs, in, out, options), op, device, in);
}

Planned plan_eager(const OpDef& op, DeviceKind device, const Attrs& attrs, std::span<const ArgDesc> in,
                   std::span<const ArgDesc> out, const PlanOptions& options) {
  Planned planned = find_plan(op, device, attrs, in, out, options);
  if (!planned.plan && device == DeviceKind::cuda) planned = plan_on_host(op, attrs, in, out, options.threads);
  return or_refuse(std::move(planned), op, device, in);
}

}  // namespace starling::kernels
