#pragma once

#include "starling/base/function_ref.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {

// True if a call has 16-bit float operands or results.
bool has_halves(std::span<const ArgDesc> in, std::span<const ArgDesc> out);

// 16-bit floats on the CPU are stored narrow and computed in f32: plans a kernel for f32 operands, with conversions
// before and after it. `plan` returns that kernel's plan, or none.
using PlanFn = FunctionRef<Planned(std::span<const ArgDesc> in, std::span<const ArgDesc> out)>;
Planned plan_widened(std::span<const ArgDesc> in, std::span<const ArgDesc> out, PlanFn plan);

}  // namespace starling::kernels
