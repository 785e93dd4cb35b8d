#pragma once

#include "starling/base/function_ref.h"
#include "starling/kernels/kernel_table.h"

namespace starling {

// Whether a call has operands or results of 16-bit floats.
bool has_halves(std::span<const ArgDesc> in, std::span<const ArgDesc> out);

// On the CPU 16-bit floats are stored narrow and computed wide: a plan that converts operands to f32, runs a kernel
// planned for f32, and rounds the results. `plan` gives that kernel's plan, or none.
using PlanFn = FunctionRef<Planned(std::span<const ArgDesc> in, std::span<const ArgDesc> out)>;
Planned plan_widened(std::span<const ArgDesc> in, std::span<const ArgDesc> out, PlanFn plan);

}  // namespace starling
